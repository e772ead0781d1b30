"""Consumer groups: list, describe, offsets, lag, delete.

Why: lag nobody sees is the commonest failure of a stream; it must be one call away.
Invariants: `lag` is end minus committed, never negative, and None where nothing was committed; records lost
to retention are counted apart, as `lost`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError

from millstream.client.errors import GroupInUse, UnknownGroup, UnknownTopic
from millstream.client.offsets import OffsetSpan, offset_spans
from millstream.client.session import AdminSession
from millstream.model.topics import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    name: str
    state: str
    protocol: str
    """`classic` or `consumer` (KIP-848); `simple` when offsets were only ever committed from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: int | None
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is in one partition."""

    partition: TopicPartition
    committed: int | None
    span: OffsetSpan

    @property
    def lag(self) -> int | None:
        return None if self.committed is None else max(self.span.end - self.committed, 0)

    @property
    def lost(self) -> int:
        """Records that retention removed before the group read them."""
        return 0 if self.committed is None else max(self.span.start - self.committed, 0)


def list_groups(session: AdminSession) -> list[GroupSummary]:
    found = session.ask(lambda admin, timeout: admin.list_consumer_groups(request_timeout=timeout))
    for failure in found.errors or ():
        raise session.translated(failure.args[0] if failure.args else failure)
    return sorted(
        (
            GroupSummary(
                name=listing.group_id,
                state=_state(listing),
                protocol=_protocol(listing),
            )
            for listing in found.valid
        ),
        key=lambda group: group.name,
    )


def group_names(session: AdminSession) -> list[str]:
    return [group.name for group in list_groups(session)]


def describe_group(session: AdminSession, name: str) -> GroupDescription:
    """Raises UnknownGroup, with close names."""
    results, failures = session.ask_all(
        lambda admin, timeout: admin.describe_consumer_groups([name], request_timeout=timeout)
    )
    for error in failures.values():
        raise _failure(session, name, error)
    found = results[name]
    if _state(found) == "dead":  # brokers before Kafka 4 describe an unknown group as dead
        raise UnknownGroup(name, group_names(session))
    return GroupDescription(
        name=name,
        state=_state(found),
        protocol=_protocol(found),
        assignor=found.partition_assignor or "",
        coordinator=found.coordinator.id if found.coordinator is not None else None,
        members=tuple(_member(member) for member in sorted(found.members, key=lambda m: m.member_id)),
    )


def group_offsets(session: AdminSession, name: str) -> dict[TopicPartition, int]:
    """Committed offsets of a group; empty when it has none, or does not exist."""
    results, failures = session.ask_all(
        lambda admin, timeout: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=timeout
        )
    )
    for error in failures.values():
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise _failure(session, name, error)
    return {
        TopicPartition(p.topic, p.partition): p.offset
        for p in sorted(results[name].topic_partitions, key=lambda p: (p.topic, p.partition))
        if p.offset >= 0
    }


def group_lag(session: AdminSession, name: str, *, assigned: Iterable[TopicPartition] = ()) -> list[GroupLag]:
    """Lag of each partition that the group committed to, and of those in `assigned` without a commit.

    Partitions of topics that were deleted meanwhile are left out.
    """
    committed = group_offsets(session, name)
    spans = _spans_of_existing(session, {*committed, *assigned})
    return [GroupLag(partition=p, committed=committed.get(p), span=span) for p, span in sorted(spans.items())]


def alter_group_offsets(session: AdminSession, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group that has no active members. Raises GroupInUse."""
    wanted = [confluent_kafka.TopicPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
    results, failures = session.ask_all(
        lambda admin, timeout: admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, wanted)], request_timeout=timeout
        )
    )
    for error in failures.values():
        raise _failure(session, name, error)
    for partition in results[name].topic_partitions:
        if partition.error is not None:
            raise _failure(session, name, partition.error)


def delete_groups(session: AdminSession, names: Sequence[str]) -> None:
    """Raises UnknownGroup or GroupInUse for the first that can't be deleted, after deleting the others."""
    _, failures = session.ask_all(
        lambda admin, timeout: admin.delete_consumer_groups(list(names), request_timeout=timeout)
    )
    for name, error in failures.items():
        raise _failure(session, name, error)


def _failure(session: AdminSession, name: str, error: KafkaError) -> Exception:
    if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
        return UnknownGroup(name, group_names(session))
    if error.code() in (
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
    ):
        return GroupInUse(name)
    return session.translated(error, name)


def _spans_of_existing(
    session: AdminSession, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetSpan]:
    counts = {name: len(topic.partitions) for name, topic in session.metadata().topics.items()}
    existing = [p for p in partitions if p.partition < counts.get(p.topic, 0)]
    try:
        return offset_spans(session, existing)
    except UnknownTopic as gone:  # deleted between the two questions
        return offset_spans(session, [p for p in existing if p.topic != gone.topic])


def _state(found: Any) -> str:
    state = getattr(found, "state", None)
    return "unknown" if state is None else str(state.name).lower().replace("_", "-")


def _protocol(found: Any) -> str:
    if found.is_simple_consumer_group:
        return "simple"
    kind = getattr(found, "type", None)
    return "unknown" if kind is None else str(kind.name).lower()


def _member(member: Any) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host,
        instance_id=member.group_instance_id or None,
        partitions=tuple(
            sorted(TopicPartition(p.topic, p.partition) for p in member.assignment.topic_partitions)
        ),
    )
