"""The facts behind a topic's outlook, gathered from a live cluster.

Why: `outlook` is arithmetic; this asks for what it needs: sizes, rates from timestamps, groups and their lag.
Invariants: nothing is changed; at most `GROUPS_MAX` groups are asked, and the answer says how many were not;
one record is read for each partition in which a group is behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.client.groups import group_offsets, list_groups
from millstream.client.offsets import OffsetSpan, offset_spans, offsets_at
from millstream.client.outlook import (
    GroupPosition,
    Observation,
    Outlook,
    PartitionFacts,
    observed,
    outlook,
    retention_of,
)
from millstream.client.read import first_records
from millstream.client.session import AdminSession
from millstream.client.sizes import DiskUse, disk_use
from millstream.client.topics import TopicDescription
from millstream.model.topics import TopicPartition

GROUPS_MAX = 200
_WINDOWS_MS = (10 * 60_000, 60 * 60_000, 24 * 60 * 60_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutlook:
    partitions: tuple[PartitionFacts, ...]
    elapsed_ms: int
    """The time over which rates were measured: the shortest window that saw a record, or since the first one."""
    disk: DiskUse | None
    outlook: Outlook
    groups_left_out: int


def topic_outlook(
    session: AdminSession, topic: TopicDescription, config: Mapping[str, str | None], *, now_ms: int
) -> TopicOutlook:
    wanted = [TopicPartition(topic.name, placement.partition) for placement in topic.partitions]
    spans = offset_spans(session, wanted)
    disk = disk_use(session, [topic.name])
    observations, elapsed_ms = _observe(session, spans, now_ms)
    facts = tuple(
        PartitionFacts(
            partition=p.partition,
            span=spans[p],
            size_bytes=None if disk is None else disk.partitions.get(p),
            records_per_s=observations[p].records_per_s,
        )
        for p in wanted
    )
    positions, left_out = _slowest_positions(session, spans)
    return TopicOutlook(
        partitions=facts,
        elapsed_ms=elapsed_ms,
        disk=disk,
        outlook=outlook(
            facts,
            retention_of(config),
            free_bytes=None if disk is None else disk.free_bytes,
            groups=positions,
            now_ms=now_ms,
        ),
        groups_left_out=left_out,
    )


def _observe(
    session: AdminSession, spans: Mapping[TopicPartition, OffsetSpan], now_ms: int
) -> tuple[dict[TopicPartition, Observation], int]:
    """What each partition took in, and the time over which something was seen at all."""
    found: dict[TopicPartition, Observation] = {}
    for window_ms in _WINDOWS_MS:
        firsts = offsets_at(session, spans, now_ms - window_ms)
        for p, span in spans.items():
            first = firsts[p]
            pair = None if first is None else (first.offset, first.timestamp_ms)
            found[p] = observed(span, pair, window_ms=window_ms, now_ms=now_ms)
        elapsed_ms = max((seen.elapsed_ms for seen in found.values() if seen.records), default=None)
        if elapsed_ms is not None:
            return found, elapsed_ms
    return found, _WINDOWS_MS[-1]


def _slowest_positions(
    session: AdminSession, spans: Mapping[TopicPartition, OffsetSpan]
) -> tuple[list[GroupPosition], int]:
    """The group that is furthest behind in each partition, and how many groups were not asked."""
    groups = list_groups(session)
    slowest: dict[TopicPartition, tuple[int, str]] = {}
    for group in groups[:GROUPS_MAX]:
        for p, committed in group_offsets(session, group.name).items():
            if p in spans and committed < spans[p].end:
                slowest[p] = min(slowest.get(p, (committed, group.name)), (committed, group.name))
    unread = first_records(
        session.connection, {p: max(committed, spans[p].start) for p, (committed, _) in slowest.items()}
    )
    positions = [
        GroupPosition(
            group=group,
            partition=p.partition,
            committed=committed,
            unread_since_ms=unread[p].timestamp_ms if p in unread else None,
        )
        for p, (committed, group) in sorted(slowest.items())
    ]
    return positions, max(len(groups) - GROUPS_MAX, 0)
