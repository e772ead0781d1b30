"""Moving a group to another place: first a plan with what it will cost, then the change.

Why: a wrong offset reset loses or repeats work; a person must see how many records before it happens.
Invariants: `plan_reset` changes nothing; new offsets lie within the partition's span; the sum of `again` and
`skipped` over a plan is what the preview shows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from millstream.client.errors import UnknownTopic
from millstream.client.groups import alter_group_offsets, group_offsets
from millstream.client.offsets import OffsetSpan, offset_spans, partitions_of
from millstream.client.positions import AtOffset, AtTime, Beginning, End, resolve
from millstream.client.session import AdminSession
from millstream.model.errors import BadRequest
from millstream.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records on (or back, when negative) from where the group is."""

    count: int


Target = Beginning | End | AtOffset | AtTime | ShiftBy


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    partition: TopicPartition
    current: int | None
    """None where the group has no committed offset yet."""
    target: int
    span: OffsetSpan

    @property
    def again(self) -> int:
        """Records that the group will read a second time."""
        if self.current is None:
            return 0
        return max(min(self.current, self.span.end) - max(self.target, self.span.start), 0)

    @property
    def skipped(self) -> int:
        """Records that the group has not read and now never will."""
        read_from = self.span.start if self.current is None else max(self.current, self.span.start)
        return max(self.target - read_from, 0)

    @property
    def changes(self) -> bool:
        return self.current != self.target


def plan_reset(
    session: AdminSession, group: str, target: Target, *, topics: Mapping[str, Collection[int]] | None = None
) -> list[PartitionMove]:
    """What a reset would do. `topics` maps a topic to partitions (none: all); without it, all committed ones.

    Raises UnknownTopic, UnknownPartition, or BadRequest when there is nothing to reset.
    """
    committed = group_offsets(session, group)
    partitions = _wanted(session, group, committed, topics)
    spans = offset_spans(session, partitions)
    if isinstance(target, ShiftBy):
        targets = _shifted(spans, committed, target.count)
    else:
        targets = resolve(session, spans, target)
    return [
        PartitionMove(partition=p, current=committed.get(p), target=targets[p], span=spans[p])
        for p in sorted(partitions)
    ]


def apply_reset(session: AdminSession, group: str, moves: Sequence[PartitionMove]) -> None:
    """Commit a plan. Raises GroupInUse when the group has active members."""
    changed = {move.partition: move.target for move in moves if move.changes}
    if changed:
        alter_group_offsets(session, group, changed)


def _wanted(
    session: AdminSession,
    group: str,
    committed: Mapping[TopicPartition, int],
    topics: Mapping[str, Collection[int]] | None,
) -> list[TopicPartition]:
    if topics:
        return [p for topic, only in topics.items() for p in partitions_of(session, topic, only)]
    found: list[TopicPartition] = []
    for topic in sorted({p.topic for p in committed}):
        try:
            existing = set(partitions_of(session, topic))
        except UnknownTopic:  # deleted after the group committed
            continue
        found += [p for p in committed if p in existing]
    if not found:
        raise BadRequest(f"group {group!r} has no committed offsets: name what to reset with --topic")
    return found


def _shifted(
    spans: Mapping[TopicPartition, OffsetSpan], committed: Mapping[TopicPartition, int], count: int
) -> dict[TopicPartition, int]:
    return {
        p: min(max(committed.get(p, span.start) + count, span.start), span.end) for p, span in spans.items()
    }
