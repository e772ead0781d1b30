"""The shape of every message, in every version, from `messages.json`.

Why: the table is small and plain, so a node starts without importing a class for each message.
Invariants: fields are in wire order; a field is in the wire format of a version only if `is_in(version)`;
tagged fields exist only in flexible versions.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from millstream.wire.apis import ApiKey
from millstream.wire.errors import UnsupportedVersion

Side = Literal["request", "response"]

_NEVER = (1, 0)  # a range of versions without one
_NOT_FLEXIBLE = 1 << 15
ZERO_UUID = b"\0" * 16
_ZEROS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": ZERO_UUID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    type: str
    """`int32`, `string`, `struct`, …: the type of the elements if it is an array."""
    is_array: bool
    versions: tuple[int, int]
    nullable: tuple[int, int]
    tag: int | None
    default: Any
    """What a missing field holds: None if it may be null, () for an array, {} for a struct."""
    fields: tuple["Field", ...]

    def is_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    @property
    def can_be_null(self) -> bool:
        """In some version."""
        return self.nullable != _NEVER

    def is_nullable(self, version: int) -> bool:
        return self.nullable[0] <= version <= self.nullable[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    api_key: ApiKey
    versions: tuple[int, int]
    flexible_from: int
    """The first version with compact lengths and tagged fields."""
    request: tuple[Field, ...]
    response: tuple[Field, ...]

    def fields(self, side: Side) -> tuple[Field, ...]:
        return self.request if side == "request" else self.response

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


@cache
def message(api_key: int) -> Message:
    """The request and response of a key. Raises UnsupportedVersion for a key nobody defined."""
    try:
        key = ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersion(api_key, 0) from None
    raw = _messages()[key.name]
    return Message(
        api_key=key,
        versions=tuple(raw["versions"]),
        flexible_from=_NOT_FLEXIBLE if raw["flexible"] is None else raw["flexible"],
        request=_fields(raw["request"]),
        response=_fields(raw["response"]),
    )


@cache
def _messages() -> dict[str, Any]:
    messages: dict[str, Any] = json.loads(Path(__file__).with_name("messages.json").read_bytes())
    return messages


def _fields(raw: list[dict[str, Any]]) -> tuple[Field, ...]:
    return tuple(_field(entry) for entry in raw)


def _field(raw: dict[str, Any]) -> Field:
    is_array = raw["type"].startswith("[]")
    type_name = raw["type"].removeprefix("[]")
    return Field(
        name=raw["name"],
        type=type_name,
        is_array=is_array,
        versions=tuple(raw["versions"]),
        nullable=tuple(raw.get("nullable", _NEVER)),
        tag=raw.get("tag"),
        default=_default(raw, type_name, is_array),
        fields=_fields(raw.get("fields", [])),
    )


def _default(raw: dict[str, Any], type_name: str, is_array: bool) -> Any:
    if is_array:
        return None if raw.get("default") == "null" else ()
    if "default" in raw:
        return raw["default"]
    if "nullable" in raw:
        return None
    return {} if type_name == "struct" else _ZEROS.get(type_name, 0)
