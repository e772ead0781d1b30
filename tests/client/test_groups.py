from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from millstream.client.connection import Connection
from millstream.client.errors import GroupInUse, UnknownGroup
from millstream.client.groups import (
    GroupLag,
    alter_group_offsets,
    delete_groups,
    describe_group,
    group_lag,
    group_names,
    group_offsets,
)
from millstream.client.offsets import OffsetSpan
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.client.topics import delete_topics
from millstream.model.topics import TopicPartition
from tests.client.sending import send


@contextmanager
def member(connection: Connection, group: str, topic: str) -> Iterator[Consumer]:
    """A consumer that has joined, until the block ends."""
    consumer = Consumer(
        {"bootstrap.servers": connection.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        while not consumer.assignment():
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()


def test_lag_is_what_lies_between_the_commit_and_the_end(
    connection: Connection, session: AdminSession, topic: str, group: str
) -> None:
    send(connection, topic, [OutgoingRecord(value=b"v", partition=0)] * 10)

    alter_group_offsets(session, group, {TopicPartition(topic, 0): 4})

    (part,) = group_lag(session, group)
    assert (part.partition, part.committed, part.lag) == (TopicPartition(topic, 0), 4, 6)
    assert group in group_names(session)


def test_a_partition_without_a_commit_has_no_lag_yet(session: AdminSession, topic: str, group: str) -> None:
    (part,) = group_lag(session, group, assigned=[TopicPartition(topic, 1)])

    assert (part.committed, part.lag) == (None, None)


def test_records_lost_to_retention_are_counted_apart() -> None:
    part = GroupLag(partition=TopicPartition("t", 0), committed=5, span=OffsetSpan(start=8, end=20))

    assert (part.lag, part.lost) == (15, 3)


def test_a_live_group_shows_its_members_and_what_they_read(
    connection: Connection, session: AdminSession, topic: str, group: str
) -> None:
    with member(connection, group, topic):
        described = describe_group(session, group)

    assert described.state == "stable"
    (only,) = described.members
    assert only.partitions == tuple(TopicPartition(topic, number) for number in range(3))


def test_offsets_of_a_live_group_are_not_moved_under_it(
    connection: Connection, session: AdminSession, topic: str, group: str
) -> None:
    with member(connection, group, topic):
        with pytest.raises(GroupInUse, match="stop its consumers"):
            alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})
        with pytest.raises(GroupInUse):
            delete_groups(session, [group])


def test_a_deleted_group_is_gone_with_its_offsets(session: AdminSession, topic: str, group: str) -> None:
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})

    delete_groups(session, [group])

    assert group not in group_names(session)
    assert group_offsets(session, group) == {}


def test_an_unknown_group_is_told_with_names_that_come_close(
    session: AdminSession, topic: str, group: str
) -> None:
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})

    with pytest.raises(UnknownGroup, match=f"did you mean '{group}'"):
        describe_group(session, f"{group}x")
    with pytest.raises(UnknownGroup):
        delete_groups(session, [f"{group}x"])


def test_a_deleted_topic_does_not_hide_the_lag_of_the_others(
    session: AdminSession, topic: str, group: str
) -> None:
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})
    delete_topics(session, [topic])

    assert group_lag(session, group) == []
