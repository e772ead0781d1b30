"""A record on its way out, and a record as it came in.

Why: rooms above deal in these values, not in the client library's message objects.
Invariants: keys and values are bytes or None (a None value is a tombstone); header order is kept.
"""

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRecord:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    """None lets the key choose, as Java clients do (murmur2)."""
    timestamp_ms: int | None = None
    """None is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRecord:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
