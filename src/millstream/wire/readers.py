"""Makes the function that reads one message in one version.

Why: see `emitting`. What is made for a legacy Heartbeat looks like this (checks of null left out):

    n1, = unpack_from_h(b, p); p += 2
    e = p + n1
    if e > end: raise short(...)
    v2 = b[p:e].decode(); p = e
    v3, n4 = unpack_from_ih(b, p); p += 6
    ...
    return HeartbeatRequest(v2, v3, v5, v6)

Invariants of the made function: `p` never passes `end` unnoticed; a length or count is compared with the
bytes that remain before anything is built from it; whatever the bytes, it returns a Struct or raises
MalformedRequest. Messages without records are read from `bytes`, whose slices are cheaper than a view's.
"""

from collections.abc import Callable
from keyword import iskeyword
from struct import calcsize, unpack_from
from struct import error as StructError
from typing import Any

from millstream.wire.emitting import FIXED, LEGACY_LENGTH, Source
from millstream.wire.errors import MalformedRequest
from millstream.wire.shapes import Field
from millstream.wire.struct import Struct
from millstream.wire.varints import Buffer, read_uvarint, skip_tags

Reader = Callable[[Buffer, int], Struct]


def make_reader(
    label: str,
    fields: tuple[Field, ...],
    version: int,
    *,
    is_flexible: bool,
    elements_max: int | None = None,
) -> Reader:
    """A function of (buffer, position) that reads the message from there to the end of the buffer.

    `elements_max` bounds the elements of all arrays together: an element of three bytes becomes an object of
    over a hundred, so a large message of many small things would fill the memory.
    """
    maker = _ReaderMaker(label, version, is_flexible, elements_max, has_records=_has_records(fields, version))
    return maker.make(fields)


def size_min(fields: tuple[Field, ...], version: int, is_flexible: bool) -> int:
    """The fewest bytes that a struct of these fields can take, at least 1."""
    size = int(is_flexible)
    for field in fields:
        if field.is_in(version) and field.tag is None:
            size += _field_size_min(field, version, is_flexible)
    return max(size, 1)


def _field_size_min(field: Field, version: int, is_flexible: bool) -> int:
    if field.is_array:
        return 1 if is_flexible else 4
    if field.is_nullable(version) and field.type == "struct":
        return 1
    return _element_size_min(field, version, is_flexible)


def _element_size_min(field: Field, version: int, is_flexible: bool) -> int:
    if field.type == "struct":
        return size_min(field.fields, version, is_flexible)
    if field.type in FIXED:
        return calcsize(">" + FIXED[field.type])
    return 1 if is_flexible else calcsize(">" + LEGACY_LENGTH[field.type])


def _has_records(fields: tuple[Field, ...], version: int) -> bool:
    return any(
        field.type == "records" or _has_records(field.fields, version)
        for field in fields
        if field.is_in(version)
    )


class _ReaderMaker:
    """Emits the statements that read a message, field by field.

    `_run` holds fixed-size fields met but not yet emitted: they end in one `unpack_from`, often together with
    the length of the string or array that follows.
    """

    def __init__(
        self, label: str, version: int, is_flexible: bool, elements_max: int | None, *, has_records: bool
    ) -> None:
        self._label = label
        self._version = version
        self._is_flexible = is_flexible
        self._elements_max = elements_max
        self._has_records = has_records
        self._run: list[tuple[str, str]] = []
        self._source = Source()
        self._source.names.update(
            Struct=Struct,
            StructError=StructError,
            unpack_from=unpack_from,
            uvarint=read_uvarint,
            skip_tags=skip_tags,
            malformed=lambda where, why: _malformed(label, where, why),
            short=lambda where, need, left: _short(label, where, need, left),
        )

    def make(self, fields: tuple[Field, ...]) -> Reader:
        source = self._source
        with source.block("def read(b, p):"):
            if self._has_records:
                source.line("if type(b) is not memoryview: b = memoryview(b)")
            else:
                source.line("if type(b) is not bytes: b = bytes(b)")
            source.line("end = len(b)")
            if self._elements_max is not None:
                source.line(f"left = {self._elements_max}")
            with source.block("try:"):
                made = self._struct(fields, self._label)
                self._flush()
                source.line(f"return {made}")
            with source.block("except (StructError, IndexError):"):
                source.line("raise malformed('', 'it ends too early') from None")
            with source.block("except UnicodeDecodeError as error:"):
                source.line("raise malformed('', f'a string is not UTF-8 ({error})') from None")
        return source.compile("read", f"{self._label} v{self._version} reader")

    def _struct(self, fields: tuple[Field, ...], where: str) -> str:
        """Emit the reading of a struct; return the expression that makes it (after the next flush)."""
        present = [field for field in fields if field.is_in(self._version)]
        values = {field.name: self._field(field, where) for field in present if field.tag is None}
        if self._is_flexible:
            values.update(self._tags([field for field in present if field.tag is not None], where))
        cls = self._struct_class(fields, where)
        return f"{cls}({', '.join(values[field.name] for field in present)})"

    def _struct_class(self, fields: tuple[Field, ...], where: str) -> str:
        made = _struct_class(where, fields, self._version)
        return self._source.constant("S", made)

    def _field(self, field: Field, where: str) -> str:
        """Emit the reading of one field; return the name of its value."""
        where = f"{where}.{field.name}"
        is_nullable = field.is_nullable(self._version)
        if field.is_array:
            return self._array(field, where, is_nullable)
        if field.type == "struct":
            return self._nullable_struct(field, where) if is_nullable else self._plain_struct(field, where)
        if field.type in FIXED:
            value = self._source.unique("v")
            self._run.append((FIXED[field.type], value))
            return value
        return self._sized(field.type, where, is_nullable)

    def _plain_struct(self, field: Field, where: str) -> str:
        made = self._struct(field.fields, where)
        self._flush()
        value = self._source.unique("v")
        self._source.line(f"{value} = {made}")
        return value

    def _nullable_struct(self, field: Field, where: str) -> str:
        source, value, marker = self._source, self._source.unique("v"), self._source.unique("n")
        self._run.append(("b", marker))
        self._flush()
        with source.block(f"if {marker} < 0:"):
            source.line(f"{value} = None")
        with source.block("else:"):
            source.line(f"{value} = {self._plain_struct(field, where)}")
        return value

    def _sized(self, type_name: str, where: str, is_nullable: bool) -> str:
        """A string, bytes or records: a length, then so many bytes."""
        source, value = self._source, self._source.unique("v")
        length = self._length(LEGACY_LENGTH[type_name])
        with self._null_or_not(length, value, where, is_nullable):
            source.line(f"e = p + {length}" + (" - 1" if self._is_flexible else ""))
            source.line(f"if e > end: raise short({where!r}, e - p, end - p)")
            source.line(f"{value} = {self._slice(type_name)}")
            source.line("p = e")
        return value

    def _slice(self, type_name: str) -> str:
        if type_name == "records":
            return "b[p:e]"
        if type_name == "bytes":
            return "bytes(b[p:e])" if self._has_records else "b[p:e]"
        return "str(b[p:e], 'utf-8')" if self._has_records else "b[p:e].decode()"

    def _array(self, field: Field, where: str, is_nullable: bool) -> str:
        source, value = self._source, self._source.unique("v")
        count = self._length("i")
        size = _element_size_min(field, self._version, self._is_flexible)
        with self._null_or_not(count, value, where, is_nullable):
            if self._is_flexible:
                source.line(f"{count} -= 1")
            source.line(f"if {count} * {size} > end - p: raise short({where!r}, {count} * {size}, end - p)")
            if self._elements_max is not None:
                source.line(f"left -= {count}")
                source.line(f"if left < 0: raise malformed({where!r}, 'the message has too many elements')")
            if field.type == "uuid":
                source.line(f"{value} = [bytes(b[i:i + 16]) for i in range(p, p + {count} * 16, 16)]")
                source.line(f"p += {count} * 16")
            elif field.type in FIXED:
                source.line(f"{value} = list(unpack_from(f'>{{{count}}}{FIXED[field.type]}', b, p))")
                source.line(f"p += {count} * {size}")
            else:
                self._elements(field, where, value, count)
        return value

    def _elements(self, field: Field, where: str, value: str, count: str) -> None:
        source = self._source
        source.line(f"{value} = []")
        with source.block(f"for _ in range({count}):"):
            if field.type == "struct":
                made = self._struct(field.fields, where + "[]")
                self._flush()
            else:
                made = self._sized(field.type, where + "[]", is_nullable=False)
            source.line(f"{value}.append({made})")

    def _length(self, legacy_code: str) -> str:
        """Emit the reading of a length or count: in a compact format it is one more, and null is 0."""
        length = self._source.unique("n")
        self._run.append(("B" if self._is_flexible else legacy_code, length))
        self._flush()
        if self._is_flexible:
            self._source.line(f"if {length} > 127: {length}, p = uvarint(b, p, {length})")
        return length

    def _null_or_not(self, length: str, value: str, where: str, is_nullable: bool) -> Any:
        """Emit the null case; what the caller emits inside the block is the other one."""
        is_null = f"if {length} == 0:" if self._is_flexible else f"if {length} < 0:"
        with self._source.block(is_null):
            if is_nullable:
                self._source.line(f"{value} = None")
            else:
                self._source.line(f"raise malformed({where!r}, 'it is null and may not be')")
        return self._source.block("else:")

    def _tags(self, fields: list[Field], where: str) -> dict[str, str]:
        """Emit the tagged fields at the end of a struct. Unknown ones are skipped."""
        source, count = self._source, self._source.unique("n")
        self._run.append(("B", count))
        self._flush()
        if not fields:
            source.line(f"if {count}: p = skip_tags(b, p, {count}, end)")
            return {}
        values = {field.name: source.unique("v") for field in fields}
        for field in fields:
            source.line(f"{values[field.name]} = {self._default(field, where)}")
        with source.block(f"if {count}:"):
            source.line(f"if {count} > 127: {count}, p = uvarint(b, p, {count})")
            source.line(f"if {count} * 2 > end - p: raise short({where!r}, {count} * 2, end - p)")
            with source.block(f"for _ in range({count}):"):
                self._one_tag(fields, values, where)
        return values

    def _one_tag(self, fields: list[Field], values: dict[str, str], where: str) -> None:
        source = self._source
        tag, size, stop = source.unique("t"), source.unique("n"), source.unique("e")
        for name in (tag, size):
            source.line(f"{name} = b[p]; p += 1")
            source.line(f"if {name} > 127: {name}, p = uvarint(b, p, {name})")
        source.line(f"{stop} = p + {size}")
        source.line(f"if {stop} > end: raise short({where!r}, {size}, end - p)")
        for field in fields:
            with source.block(f"if {tag} == {field.tag}:"):
                value = self._field(field, where)
                self._flush()
                source.line(f"{values[field.name]} = {value}")
                source.line(f"if p != {stop}: raise malformed({where!r}, 'a tagged field has a wrong size')")
        source.line(f"p = {stop}")

    def _default(self, field: Field, where: str) -> str:
        if field.is_array:
            return "None" if field.default is None else "[]"
        if field.type != "struct" or field.default is None:
            return repr(field.default)
        return self._source.constant("D", _default_struct(f"{where}.{field.name}", field, self._version))

    def _flush(self) -> None:
        """Emit the pending fixed-size fields."""
        run, self._run = self._run, []
        if not run:
            return
        codes, targets = [code for code, _ in run], [target for _, target in run]
        if codes == ["B"]:
            self._source.line(f"{targets[0]} = b[p]; p += 1")
            return
        unpack, size = self._source.packer(codes, "unpack_from")
        self._source.line(f"{', '.join(targets)}, = {unpack}(b, p); p += {size}")


def _struct_class(where: str, fields: tuple[Field, ...], version: int) -> type[Struct]:
    """A Struct with slots for the fields of this version, and the defaults of all others."""
    slots = [field.name for field in fields if field.is_in(version)]
    assert not any(iskeyword(name) or not name.isidentifier() for name in slots), where
    source = Source()
    with source.block(f"def __init__(self{''.join(', ' + name for name in slots)}):"):
        source.line("; ".join(f"self.{name} = {name}" for name in slots) or "pass")
    absent = {field.name: _absent_value(where, field, version) for field in fields if field.name not in slots}
    body = {"__slots__": tuple(slots), "__init__": source.compile("__init__", where), **absent}
    return type(where.replace("[]", "").rpartition(".")[2], (Struct,), body)


def _absent_value(where: str, field: Field, version: int) -> Any:
    return _default_struct(where, field, version) if field.default == {} else field.default


def _default_struct(where: str, field: Field, version: int) -> Struct:
    """A struct with the default of each of its fields. Shared: nobody changes a request."""
    cls = _struct_class(where, field.fields, version)
    defaults = [_absent_value(where, inner, version) for inner in field.fields if inner.is_in(version)]
    return cls(*defaults)


def _malformed(label: str, where: str, why: str) -> MalformedRequest:
    return MalformedRequest(f"{where or label}: {why}")


def _short(label: str, where: str, need: int, left: int) -> MalformedRequest:
    return _malformed(label, where, f"{need} bytes are announced, {left} are left")
