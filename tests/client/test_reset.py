import pytest

from millstream.client.connection import Connection
from millstream.client.errors import UnknownPartition
from millstream.client.groups import alter_group_offsets, group_offsets
from millstream.client.offsets import OffsetSpan, delete_records_before
from millstream.client.positions import AtOffset, AtTime, Beginning, End
from millstream.client.records import OutgoingRecord
from millstream.client.reset import PartitionMove, ShiftBy, Target, apply_reset, plan_reset
from millstream.client.session import AdminSession
from millstream.model.errors import BadRequest
from millstream.model.topics import TopicPartition
from tests.client.sending import send
from tests.client.times import MINUTE_MS, NOW_MS


@pytest.fixture
def partition(connection: Connection, session: AdminSession, topic: str, group: str) -> TopicPartition:
    """Ten records one minute apart, the first two deleted; the group has read up to 6."""
    send(
        connection,
        topic,
        [
            OutgoingRecord(value=b"v", partition=0, timestamp_ms=NOW_MS - (9 - n) * MINUTE_MS)
            for n in range(10)
        ],
    )
    found = TopicPartition(topic, 0)
    delete_records_before(session, {found: 2})
    alter_group_offsets(session, group, {found: 6})
    return found


@pytest.mark.parametrize(
    ("target", "offset", "again", "skipped"),
    [
        (Beginning(), 2, 4, 0),
        (End(), 10, 0, 4),
        (AtOffset(8), 8, 0, 2),
        (AtOffset(0), 2, 4, 0),
        (AtOffset(99), 10, 0, 4),
        (AtTime(NOW_MS - 5 * MINUTE_MS), 4, 2, 0),
        (AtTime(NOW_MS + MINUTE_MS), 10, 0, 4),
        (ShiftBy(-1), 5, 1, 0),
        (ShiftBy(99), 10, 0, 4),
    ],
    ids=lambda value: "a time" if isinstance(value, AtTime) else str(value),
)
def test_the_plan_says_what_is_read_again_and_what_is_skipped(
    session: AdminSession,
    partition: TopicPartition,
    group: str,
    target: Target,
    offset: int,
    again: int,
    skipped: int,
) -> None:
    (move,) = plan_reset(session, group, target)

    assert (move.current, move.target, move.again, move.skipped) == (6, offset, again, skipped)
    assert group_offsets(session, group) == {partition: 6}


def test_applying_a_plan_moves_the_group(
    session: AdminSession, partition: TopicPartition, group: str
) -> None:
    apply_reset(session, group, plan_reset(session, group, Beginning()))

    assert group_offsets(session, group) == {partition: 2}


def test_named_topics_are_reset_even_where_nothing_was_committed(
    session: AdminSession, partition: TopicPartition, group: str
) -> None:
    moves = plan_reset(session, group, Beginning(), topics={partition.topic: ()})

    assert [(move.partition.partition, move.current) for move in moves] == [(0, 6), (1, None), (2, None)]


def test_named_partitions_leave_the_others_alone(
    session: AdminSession, partition: TopicPartition, group: str
) -> None:
    (move,) = plan_reset(session, group, End(), topics={partition.topic: [2]})

    assert move.partition == TopicPartition(partition.topic, 2)


def test_a_partition_that_is_not_there_is_refused(session: AdminSession, topic: str, group: str) -> None:
    with pytest.raises(UnknownPartition):
        plan_reset(session, group, End(), topics={topic: [5]})


def test_a_group_without_offsets_needs_to_be_told_a_topic(session: AdminSession, group: str) -> None:
    with pytest.raises(BadRequest, match="--topic"):
        plan_reset(session, group, Beginning())


def test_records_that_expired_before_they_were_read_are_not_read_again() -> None:
    move = PartitionMove(
        partition=TopicPartition("t", 0), current=3, target=10, span=OffsetSpan(start=8, end=20)
    )

    assert (move.again, move.skipped) == (0, 2)
