"""A message, or a part of one, as attributes.

Why: handlers read `request.topics[0].name`, whatever the version of the request was.
Invariants: the reader of a message makes subclasses with slots for the fields of its version; fields of other
versions are class attributes that hold their default, so every field of the message can be read.
"""

from typing import TYPE_CHECKING, Any


class Struct:
    """Plain attributes. `Struct(name="a", partitions=[])` makes one by hand, for a test."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    if TYPE_CHECKING:  # the names come from the protocol's schema, which mypy can't see

        def __getattr__(self, name: str) -> Any: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and as_dict(self) == as_dict(other)

    __hash__ = None  # type: ignore[assignment]  # compared by value, and not frozen

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in _fields(self).items())
        return f"{type(self).__name__}({fields})"


def as_dict(struct: Struct) -> dict[str, Any]:
    """The fields that were read, as nested dicts and lists: what the writer of the same version takes."""
    return {name: _as_plain(value) for name, value in _fields(struct).items()}


def _fields(struct: Struct) -> dict[str, Any]:
    slots = {name: getattr(struct, name) for name in getattr(type(struct), "__slots__", ())}
    return {**slots, **struct.__dict__}


def _as_plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return as_dict(value)
    if isinstance(value, list):
        return [_as_plain(item) for item in value]
    return value
