"""Where to stand in a topic: the beginning, the end, an offset, a time, the last N.

Why: reading, resetting a group and deleting records all start by naming a place, in the same words.
Invariants: a place in words parses to one value; a number is an offset, `-N` the last N, `@N` a time in
milliseconds; resolved offsets lie within the partition's span.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from millstream.client.offsets import OffsetSpan, offset_spans, offsets_at
from millstream.client.session import AdminSession
from millstream.model.errors import BadRequest
from millstream.model.topics import TopicPartition

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Beginning:
    def __str__(self) -> str:
        return "the beginning"


@dataclass(frozen=True, slots=True)
class End:
    def __str__(self) -> str:
        return "the end"


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset}"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time."""

    timestamp_ms: int

    def __str__(self) -> str:
        return time_text(self.timestamp_ms)


@dataclass(frozen=True, slots=True)
class LastRecords:
    """The last `count` records of the topic, over all partitions."""

    count: int

    def __str__(self) -> str:
        return f"the last {self.count}"


Position = Beginning | End | AtOffset | AtTime | LastRecords


def parse_position(text: str, *, now_ms: int) -> Position:
    """`beginning`, `end`, `42`, `-10`, `2026-11-15T09:30`, `@1794782030979`, or `2h` for two hours ago."""
    word = text.strip()
    if word.lower() in ("beginning", "earliest", "start"):
        return Beginning()
    if word.lower() in ("end", "latest", "now"):
        return End()
    if word.isascii() and word.isdigit():
        return AtOffset(int(word))
    if word.startswith("-") and word[1:].isascii() and word[1:].isdigit():
        return LastRecords(int(word[1:]))
    if _DURATION.fullmatch(word):
        return AtTime(now_ms - parse_duration_ms(word))
    try:
        return AtTime(parse_time_ms(word))
    except BadRequest:
        raise BadRequest(
            f"{text!r} is not a place in a topic: use beginning, end, an offset (42), the last N (-10), "
            "a time (2026-11-15T09:30 or @MILLISECONDS) or how long ago (2h)"
        ) from None


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970 from an ISO date and time (local unless it carries a zone) or `@N`."""
    word = text.strip()
    if word.startswith("@") and word[1:].isascii() and word[1:].isdigit():
        return int(word[1:])
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise BadRequest(
            f"{text!r} is not a time: write 2026-11-15, 2026-11-15T09:30, 2026-11-15T09:30:00Z "
            "or @MILLISECONDS since 1970"
        ) from None
    return int(moment.timestamp() * 1_000)


def parse_duration_ms(text: str) -> int:
    """Milliseconds from `90s`, `15m`, `1d12h` or Kafka's `PT1H30M`."""
    word = text.strip()
    if _DURATION.fullmatch(word):
        return int(sum(float(number) * _UNITS_MS[unit] for number, unit in _DURATION_PART.findall(word)))
    iso = _ISO_DURATION.fullmatch(word)
    if iso is not None and any(iso.groupdict().values()):
        return int(sum(float(part) * _UNITS_MS[unit] for unit, part in iso.groupdict().items() if part))
    raise BadRequest(f"{text!r} is not a duration: write 90s, 15m, 2h, 1d12h or PT1H30M")


def time_text(timestamp_ms: int) -> str:
    """A timestamp as people read it, in UTC, to the millisecond."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1_000, tz=UTC)
    except (OverflowError, ValueError, OSError):  # a producer may claim any 64-bit time
        return f"@{timestamp_ms}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def resolve(
    session: AdminSession,
    spans: Mapping[TopicPartition, OffsetSpan],
    position: Beginning | End | AtOffset | AtTime,
) -> dict[TopicPartition, int]:
    """The offset of a place in each partition, within its span; a time after the last record is the end."""
    match position:
        case Beginning():
            return {p: span.start for p, span in spans.items()}
        case End():
            return {p: span.end for p, span in spans.items()}
        case AtOffset(offset):
            return {p: min(max(offset, span.start), span.end) for p, span in spans.items()}
        case AtTime(timestamp_ms):
            found = offsets_at(session, spans, timestamp_ms)
            return {
                p: span.end if (at := found[p]) is None else min(max(at.offset, span.start), span.end)
                for p, span in spans.items()
            }


def resolve_topic(
    session: AdminSession, partitions: list[TopicPartition], position: Beginning | End | AtOffset | AtTime
) -> dict[TopicPartition, int]:
    """`resolve` for partitions whose spans are not yet known."""
    return resolve(session, offset_spans(session, partitions), position)
