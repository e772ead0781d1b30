"""Python source, line by line.

Why: a codec made for one message and version is several times faster than one that walks its schema for each
message. This is the part that reader and writer generators share.
Invariants: names are unique within one source; fixed-size fields that stand next to each other become one
`struct` call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any

# Types whose size is fixed, by the code that `struct` has for them. A uuid is its 16 raw bytes.
FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
# The code of the length before a legacy value; compact lengths are varints for all.
LEGACY_LENGTH = {"string": "h", "bytes": "i", "records": "i"}


class Source:
    """Lines of a function in the making, and the names that its code may use."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def unique(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for a value that can't be written down in the source."""
        name = self.unique(stem)
        self.names[name] = value
        return name

    def packer(self, codes: list[str], method: str) -> tuple[str, int]:
        """A name for `struct`'s compiled method over these codes, and their size."""
        packer = Packer(">" + "".join(codes))
        name = f"{method}_{''.join(codes).replace('?', 'bool')}"
        self.names[name] = getattr(packer, method)
        return name, packer.size

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str, file_name: str) -> Callable[..., Any]:
        """Run the source and return the function of that name."""
        exec(compile(self.text(), f"<{file_name}>", "exec"), self.names)
        made: Callable[..., Any] = self.names[function]
        return made
