"""Makes the function that writes one message in one version.

Why: see `emitting`.
Invariants of the made function: keys of other versions are ignored; a missing key takes the default; None
is taken where some version of the field has null, and is empty in the others; a tagged field that holds its
default is not written. A value that does not fit its type is a mistake of ours: the error passes, with a note
that names the message.
"""

from collections.abc import Callable
from struct import pack
from typing import Any

from millstream.wire.emitting import FIXED, LEGACY_LENGTH, Source
from millstream.wire.shapes import Field
from millstream.wire.varints import put_uvarint

Writer = Callable[[dict[str, Any]], bytes]


def make_writer(label: str, fields: tuple[Field, ...], version: int, *, is_flexible: bool) -> Writer:
    """A function from nested dicts and lists to the bytes of the message."""
    return _WriterMaker(label, version, is_flexible).make(fields)


class _WriterMaker:
    """Emits the statements that write a message, field by field.

    `_run` holds fixed-size values met but not yet emitted, `_out` names the buffer that is being filled.
    """

    def __init__(self, label: str, version: int, is_flexible: bool) -> None:
        self._label = label
        self._version = version
        self._is_flexible = is_flexible
        self._out = "out"
        self._run: list[tuple[str, str]] = []
        self._source = Source()
        self._source.names.update(pack=pack, put_uvarint=put_uvarint)

    def make(self, fields: tuple[Field, ...]) -> Writer:
        source = self._source
        with source.block("def write(message):"):
            source.line("out = bytearray()")
            with source.block("try:"):
                self._struct(fields, "message")
                self._flush()
            with source.block("except Exception as error:"):
                source.line(f"error.add_note({f'while writing {self._label} in version {self._version}'!r})")
                source.line("raise")
            source.line("return bytes(out)")
        return source.compile("write", f"{self._label} v{self._version} writer")

    def _struct(self, fields: tuple[Field, ...], value: str) -> None:
        get = self._source.unique("get")
        self._source.line(f"{get} = {value}.get")
        present = [field for field in fields if field.is_in(self._version)]
        for field in present:
            if field.tag is None:
                self._field(field, self._get(field, get))
        if self._is_flexible:
            tagged = [field for field in present if field.tag is not None]
            self._tags(sorted(tagged, key=lambda field: field.tag or 0), get)

    def _get(self, field: Field, get: str) -> str:
        value = f"{get}({field.name!r}, {field.default!r})"
        if field.can_be_null and not field.is_nullable(self._version) and field.tag is None:
            # Null in the newest version is empty in those that have no null.
            return f"{value} or {_empty(field)!r}"
        return value

    def _field(self, field: Field, value: str) -> None:
        """Emit the writing of one field whose value is the expression `value`."""
        is_nullable = field.is_nullable(self._version)
        if field.is_array:
            self._array(field, value, is_nullable)
        elif field.type == "struct":
            self._nested(field, value, is_nullable)
        elif field.type in FIXED:
            self._run.append((FIXED[field.type], value))
        else:
            self._sized(field.type, value, is_nullable)

    def _nested(self, field: Field, value: str, is_nullable: bool) -> None:
        if not is_nullable:
            self._struct(field.fields, f"({value})")
            return
        source, name = self._source, self._source.unique("v")
        self._flush()
        source.line(f"{name} = {value}")
        with source.block(f"if {name} is None:"):
            source.line(f"{self._out}.append(255)")
        with source.block("else:"):
            source.line(f"{self._out}.append(1)")
            self._struct(field.fields, name)
            self._flush()

    def _sized(self, type_name: str, value: str, is_nullable: bool) -> None:
        """A string, bytes or records: a length, then so many bytes."""
        source, name, length = self._source, self._source.unique("v"), self._source.unique("n")
        encode = ".encode()" if type_name == "string" else ""
        if is_nullable:
            source.line(f"{name} = {value}; {length} = -1")
            with source.block(f"if {name} is not None:"):
                if encode:
                    source.line(f"{name} = {name}.encode()")
                source.line(f"{length} = len({name})")
        else:
            source.line(f"{name} = ({value}){encode}; {length} = len({name})")
        self._length(length, LEGACY_LENGTH[type_name])
        source.line(f"if {length} > 0: {self._out} += {name}")

    def _array(self, field: Field, value: str, is_nullable: bool) -> None:
        source, name, count = self._source, self._source.unique("v"), self._source.unique("n")
        source.line(f"{name} = {value}")
        source.line(
            f"{count} = -1 if {name} is None else len({name})" if is_nullable else f"{count} = len({name})"
        )
        self._length(count, "i")
        if field.type == "uuid":
            source.line(f"if {count} > 0: {self._out} += b''.join({name})")
        elif field.type in FIXED:
            source.line(f"if {count} > 0: {self._out} += pack(f'>{{{count}}}{FIXED[field.type]}', *{name})")
        else:
            item = source.unique("i")
            with source.block(f"for {item} in {name} or ():"):
                if field.type == "struct":
                    self._struct(field.fields, item)
                else:
                    self._sized(field.type, item, is_nullable=False)
                self._flush()

    def _length(self, length: str, legacy_code: str) -> None:
        """Emit a length or count: in a compact format it is one more, and null is 0."""
        if not self._is_flexible:
            self._run.append((legacy_code, length))
            self._flush()
            return
        self._flush()
        self._source.line(f"if {length} < 127: {self._out}.append({length} + 1)")
        self._source.line(f"else: put_uvarint({self._out}, {length} + 1)")

    def _tags(self, fields: list[Field], get: str) -> None:
        if not fields:
            self._run.append(("B", "0"))
            return
        self._flush()
        source, count, tags = self._source, self._source.unique("n"), self._source.unique("tags")
        source.line(f"{count} = 0; {tags} = bytearray()")
        for field in fields:
            value, buffer = source.unique("v"), source.unique("o")
            source.line(f"{value} = {self._get(field, get)}")
            with source.block(f"if {_is_set(field, value, self._version)}:"):
                source.line(f"{buffer} = bytearray()")
                outer, self._out = self._out, buffer
                self._field(field, value)
                self._flush()
                self._out = outer
                source.line(f"{count} += 1; put_uvarint({tags}, {field.tag})")
                source.line(f"put_uvarint({tags}, len({buffer})); {tags} += {buffer}")
        source.line(f"{self._out}.append({count}); {self._out} += {tags}")

    def _flush(self) -> None:
        """Emit the pending fixed-size values."""
        run, self._run = self._run, []
        if not run:
            return
        codes, values = [code for code, _ in run], [value for _, value in run]
        if run == [("B", "0")]:
            self._source.line(f"{self._out}.append(0)")
            return
        name, _ = self._source.packer(codes, "pack")
        self._source.line(f"{self._out} += {name}({', '.join(values)})")


def _empty(field: Field) -> Any:
    if field.is_array:
        return ()
    return {"struct": {}, "string": ""}.get(field.type, b"")


def _is_set(field: Field, value: str, version: int) -> str:
    """Whether a tagged field holds something else than its default, and has to be written."""
    if field.default is None:
        return f"{value} is not None"
    if field.is_array:
        return value
    if field.type == "struct":
        defaults = {inner.name: inner.default for inner in field.fields if inner.is_in(version)}
        return f"{value} and {value} != {defaults!r}"
    return f"{value} != {field.default!r}"
