"""What a coordinator wants done: records to append, and replies to send once they are durable.

Why: deciding is kept apart from disk and sockets, so that every rule of a protocol can be tested as a value.
Invariants: the caller appends `records` and applies them, in order, before it asks the coordinator anything
else; it sends `replies` only when the records are durable. Each token is answered exactly once.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

from millstream.wire.errors import ErrorCode

Token = Any
"""Where a reply goes; opaque here."""

Record = tuple[bytes, bytes | None]
Reply = tuple[Token, dict[str, Any]]


class Call(TypedDict):
    """What every request brings besides its body.

    `now_ms` is Unix time that never goes backwards while the process lives: take the wall clock once and
    advance it by the monotonic one, or a corrected clock ends every session at once.
    """

    version: int
    token: Token
    client_id: str | None
    client_host: str
    now_ms: int


class Waiting(NamedTuple):
    """A request whose reply is not decided yet."""

    token: Token
    version: int


@dataclass(slots=True)
class Decision:
    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    after_earlier: bool = False
    """The replies show what earlier records made so: hold them until everything appended before is durable.
    Without records of its own, a decision that does not say this is answered at once."""

    def reply(self, token: Token, body: dict[str, Any]) -> "Decision":
        self.replies.append((token, body))
        return self


def refused(body: dict[str, Any], error_code: ErrorCode) -> dict[str, Any]:
    """The same reply with `error_code` wherever it has one: its records could not be appended."""
    changed: dict[str, Any] = {}
    for name, value in body.items():
        if name == "error_code":
            changed[name] = error_code
        elif isinstance(value, list):
            changed[name] = [refused(item, error_code) if isinstance(item, dict) else item for item in value]
        else:
            changed[name] = value
    return changed
