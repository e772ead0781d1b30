"""Disk arithmetic: at the present rate, how long does retention last, when is the disk full, who loses data.

Why: retention is set once in hours or bytes and forgotten; what matters is what it means at today's rate.
Invariants: pure; no answer is a guess: what can't be known is None. Times are lower bounds: a log drops whole
segments, so a record may live longer than its retention, never shorter.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from millstream.client.offsets import OffsetSpan

ELAPSED_MS_MIN = 1_000
"""A burst just now is spread over a second at least, or its rate would be without meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """When a topic's records stop being readable; None is never."""

    age_ms_max: int | None
    size_bytes_max: int | None
    """Of one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    partition: int
    span: OffsetSpan
    size_bytes: int | None
    records_per_s: float

    @property
    def bytes_per_record(self) -> float | None:
        """None when there is nothing to divide: no size, or no records."""
        if self.size_bytes is None or self.span.count == 0:
            return None
        return self.size_bytes / self.span.count

    @property
    def bytes_per_s(self) -> float | None:
        if self.records_per_s == 0:
            return 0.0
        size = self.bytes_per_record
        return None if size is None else self.records_per_s * size


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """A group in one partition, and the time of the first record that it has not read."""

    group: str
    partition: int
    committed: int
    unread_since_ms: int | None


Bound = Literal["age", "size", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRisk:
    group: str
    partition: int
    lag: int
    lost: int
    """Records that retention has already taken from it."""
    time_left_s: float | None
    """Until retention takes the first unread record, if the group reads no further; None is never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    records_per_s: float
    bytes_per_s: float | None
    lasts_s: float | None
    """How long a new record stays at the present rate, in the busiest partition; None is for ever."""
    bound: Bound
    """Which setting decides that."""
    settles_at_bytes: float | None
    """The topic's size once retention balances the rate; None when it grows without end, or is not known."""
    disk_full_in_s: float | None
    """None when it never will at this rate, or when it can't be known."""
    disk_known: bool
    risks: tuple[GroupRisk, ...]
    """Groups that are behind, the one with the least time first."""


def retention_of(config: Mapping[str, str | None]) -> Retention:
    """From a topic's settings. Compacted-only topics and endless archives never drop by age or size."""
    if "delete" not in (config.get("cleanup.policy") or "delete"):
        return Retention(age_ms_max=None, size_bytes_max=None)
    if config.get("millstream.archive.enable") == "true":
        return Retention(
            age_ms_max=_limit(config.get("millstream.archive.retention.ms")), size_bytes_max=None
        )
    return Retention(
        age_ms_max=_limit(config.get("retention.ms")), size_bytes_max=_limit(config.get("retention.bytes"))
    )


def _limit(text: str | None) -> int | None:
    value = int(text) if text else -1
    return None if value < 0 else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """So many records in so much time."""

    records: int
    elapsed_ms: int

    @property
    def records_per_s(self) -> float:
        return self.records * 1_000 / max(self.elapsed_ms, ELAPSED_MS_MIN)


def observed(
    span: OffsetSpan, first_in_window: tuple[int, int] | None, *, window_ms: int, now_ms: int
) -> Observation:
    """What a partition took in during the window before now.

    `first_in_window` is the (offset, timestamp) of the first record in the window. When that is the partition's
    first, nothing is known of the time before it: only the time since counts.
    """
    if first_in_window is None:
        return Observation(records=0, elapsed_ms=window_ms)
    offset, timestamp_ms = first_in_window
    elapsed_ms = window_ms if offset > span.start else min(now_ms - timestamp_ms, window_ms)
    return Observation(records=max(span.end - offset, 0), elapsed_ms=max(elapsed_ms, ELAPSED_MS_MIN))


def outlook(
    partitions: Sequence[PartitionFacts],
    retention: Retention,
    *,
    free_bytes: int | None,
    groups: Sequence[GroupPosition] = (),
    now_ms: int,
) -> Outlook:
    """What the present rate means for a topic's disk and its readers."""
    rates = [p.bytes_per_s for p in partitions]
    known_rates = [rate for rate in rates if rate is not None]
    bytes_per_s = sum(known_rates) if len(known_rates) == len(rates) else None
    lasts_s, bound = _lasts(known_rates, retention)
    growth = _growth(partitions, retention) if bytes_per_s is not None else None
    disk_known = growth is not None and free_bytes is not None
    return Outlook(
        records_per_s=sum(p.records_per_s for p in partitions),
        bytes_per_s=bytes_per_s,
        lasts_s=lasts_s,
        bound=bound,
        settles_at_bytes=_settles_at(partitions, growth),
        disk_full_in_s=_full_in(growth, free_bytes)
        if growth is not None and free_bytes is not None
        else None,
        disk_known=disk_known,
        risks=_risks(partitions, retention, groups, now_ms),
    )


def _lasts(rates: Sequence[float], retention: Retention) -> tuple[float | None, Bound]:
    by_age = math.inf if retention.age_ms_max is None else retention.age_ms_max / 1_000
    busiest = max(rates, default=0.0)
    by_size = (
        retention.size_bytes_max / busiest
        if retention.size_bytes_max is not None and busiest > 0
        else math.inf
    )
    if by_age == by_size == math.inf:
        return None, "nothing"
    return (by_age, "age") if by_age <= by_size else (by_size, "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growing:
    """A partition that grows at `bytes_per_s` until `steady_in_s` from now."""

    bytes_per_s: float
    steady_in_s: float


def _growth(partitions: Sequence[PartitionFacts], retention: Retention) -> list[_Growing]:
    growing = []
    for p in partitions:
        rate = p.bytes_per_s or 0.0
        if rate == 0:
            continue
        steady = math.inf if retention.age_ms_max is None else rate * retention.age_ms_max / 1_000
        if retention.size_bytes_max is not None:
            steady = min(steady, retention.size_bytes_max)
        more = max(steady - (p.size_bytes or 0), 0.0)
        growing.append(_Growing(bytes_per_s=rate, steady_in_s=more / rate))
    return growing


def _settles_at(partitions: Sequence[PartitionFacts], growth: Sequence[_Growing] | None) -> float | None:
    if growth is None or any(p.size_bytes is None for p in partitions):
        return None
    more = sum(g.bytes_per_s * g.steady_in_s for g in growth)
    return None if more == math.inf else sum(p.size_bytes or 0 for p in partitions) + more


def _full_in(growth: Sequence[_Growing], free_bytes: int) -> float | None:
    """Growth is a line that flattens as one partition after the other reaches its steady size."""
    now_s, left = 0.0, float(free_bytes)
    rate = sum(g.bytes_per_s for g in growth)
    for g in sorted(growth, key=lambda growing: growing.steady_in_s):
        until_s = g.steady_in_s - now_s
        if rate * until_s >= left:
            return now_s + left / rate
        left -= rate * until_s
        rate -= g.bytes_per_s
        now_s = g.steady_in_s
    return None


def _risks(
    partitions: Sequence[PartitionFacts],
    retention: Retention,
    groups: Sequence[GroupPosition],
    now_ms: int,
) -> tuple[GroupRisk, ...]:
    facts = {p.partition: p for p in partitions}
    risks = []
    for position in groups:
        p = facts.get(position.partition)
        if p is None or position.committed >= p.span.end:
            continue
        risks.append(
            GroupRisk(
                group=position.group,
                partition=position.partition,
                lag=p.span.end - position.committed,
                lost=max(p.span.start - position.committed, 0),
                time_left_s=_time_left(p, retention, position, now_ms),
            )
        )
    return tuple(
        sorted(risks, key=lambda r: (math.inf if r.time_left_s is None else r.time_left_s, -r.lag, r.group))
    )


def _time_left(p: PartitionFacts, retention: Retention, position: GroupPosition, now_ms: int) -> float | None:
    left = math.inf
    if retention.age_ms_max is not None and position.unread_since_ms is not None:
        left = (position.unread_since_ms + retention.age_ms_max - now_ms) / 1_000
    size, rate = p.bytes_per_record, p.bytes_per_s
    if retention.size_bytes_max is not None and size is not None and rate:
        unread = (p.span.end - max(position.committed, p.span.start)) * size
        left = min(left, (retention.size_bytes_max - unread) / rate)
    return None if left == math.inf else max(left, 0.0)
