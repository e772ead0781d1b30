import time
from collections.abc import Iterable

import pytest

from millstream.client.connection import Connection
from millstream.client.errors import OffsetOutOfRange, UnknownTopic
from millstream.client.offsets import delete_records_before
from millstream.client.positions import AtOffset, AtTime, Beginning, End, LastRecords, Position
from millstream.client.read import first_records, latest, plan_read, read, read_batches
from millstream.client.records import OutgoingRecord, ReceivedRecord
from millstream.client.session import AdminSession
from millstream.client.topics import create_topic, delete_topics
from millstream.model.errors import BadRequest
from millstream.model.topics import TopicPartition
from tests.client.sending import send
from tests.client.target import running_target, unused_name
from tests.client.times import MINUTE_MS, NOW_MS


def fill(connection: Connection, topic: str, count: int, *, partition: int = 0, first: int = 0) -> None:
    send(
        connection,
        topic,
        [
            OutgoingRecord(
                value=b"%d" % n, partition=partition, timestamp_ms=NOW_MS - 60 * MINUTE_MS + n * MINUTE_MS
            )
            for n in range(first, first + count)
        ],
    )


def values(records: Iterable[ReceivedRecord]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Beginning(), [0, 1, 2, 3, 4]),
        (AtOffset(3), [3, 4]),
        (AtOffset(5), []),
        (AtTime(NOW_MS - 60 * MINUTE_MS + 2 * MINUTE_MS), [2, 3, 4]),
        (AtTime(NOW_MS), []),
        (LastRecords(2), [3, 4]),
        (LastRecords(99), [0, 1, 2, 3, 4]),
        (LastRecords(0), []),
        (End(), []),
    ],
    ids=lambda value: "a time" if isinstance(value, AtTime) else str(value),
)
def test_reading_starts_where_it_is_told_and_stops_at_the_end(
    connection: Connection, session: AdminSession, topic: str, start: Position, expected: list[int]
) -> None:
    fill(connection, topic, 5)

    assert values(read(connection, plan_read(session, topic, start))) == expected


def test_the_last_records_are_the_latest_over_all_partitions(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 3, partition=0, first=0)
    fill(connection, topic, 3, partition=2, first=2)

    assert values(read(connection, plan_read(session, topic, LastRecords(3)))) == [2, 3, 4]


def test_merging_partitions_keeps_the_order_within_each() -> None:
    def record(partition: int, offset: int, timestamp_ms: int) -> ReceivedRecord:
        return ReceivedRecord(
            topic="t", partition=partition, offset=offset, timestamp_ms=timestamp_ms, key=None, value=None
        )

    out_of_order = [record(0, 0, 50), record(0, 1, 10)]
    other = [record(1, 0, 20), record(1, 1, 30)]

    merged = latest([out_of_order, other], 4)

    assert [(r.partition, r.offset) for r in merged] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_too_many_last_records_are_refused(session: AdminSession, topic: str) -> None:
    with pytest.raises(BadRequest, match="start at a time or an offset"):
        plan_read(session, topic, LastRecords(10_000_000))


def test_only_the_partitions_asked_for_are_read(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 2, partition=0)
    fill(connection, topic, 2, partition=1, first=10)

    plan = plan_read(session, topic, Beginning(), partitions=[1])

    assert values(read(connection, plan)) == [10, 11]


def test_a_count_ends_a_read_early(connection: Connection, session: AdminSession, topic: str) -> None:
    fill(connection, topic, 5)
    plan = plan_read(session, topic, Beginning())

    assert values(read(connection, plan, count=3)) == [0, 1, 2]
    assert values(read(connection, plan, count=0)) == []


def test_what_is_written_after_a_bounded_read_began_is_not_in_it(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 3)
    plan = plan_read(session, topic, Beginning())
    fill(connection, topic, 3, first=3)

    assert values(read(connection, plan)) == [0, 1, 2]


def test_following_waits_for_what_comes(connection: Connection, session: AdminSession, topic: str) -> None:
    fill(connection, topic, 2)
    reader = read_batches(connection, plan_read(session, topic, LastRecords(1)), follow=True, count=3)

    first = next(reader)
    fill(connection, topic, 2, first=2)
    rest = [record for batch in reader for record in batch]

    assert values(first) == [1]
    assert values(rest) == [2, 3]


def test_an_offset_that_no_partition_holds_is_refused(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 2)

    with pytest.raises(OffsetOutOfRange, match=r"offset 7 is outside \[0, 2\]"):
        plan_read(session, topic, AtOffset(7))


def test_a_reader_that_retention_overtook_is_told_so(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 5)
    plan = plan_read(session, topic, Beginning())
    delete_records_before(session, {TopicPartition(topic, 0): 3})

    with pytest.raises(OffsetOutOfRange, match=r"outside \[3, 5\]"):
        list(read(connection, plan))


def test_a_topic_deleted_meanwhile_ends_the_read(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 1)
    plan = plan_read(session, topic, Beginning())
    delete_topics(session, [topic])
    impatient = Connection(bootstrap=connection.bootstrap, timeout_s=4.0)

    with pytest.raises(UnknownTopic):
        list(read(impatient, plan))


def test_reading_an_unknown_topic_does_not_create_it(session: AdminSession) -> None:
    name = unused_name("nowhere")

    with pytest.raises(UnknownTopic):
        plan_read(session, name, Beginning())
    with pytest.raises(UnknownTopic):
        plan_read(session, name, Beginning())


def test_the_first_record_from_an_offset_is_found_in_each_partition(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    fill(connection, topic, 3, partition=0)
    fill(connection, topic, 1, partition=1)

    found = first_records(connection, {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 1})

    assert {p.partition: record.offset for p, record in found.items()} == {0: 1}


def test_the_last_records_are_found_behind_the_gaps_of_compaction() -> None:
    quick = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "50"}
    with running_target(quick) as address:
        connection = Connection(bootstrap=address)
        with AdminSession(connection) as session:
            topic = unused_name("compacted")
            config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0"}
            create_topic(session, topic, partitions=1, config=config)
            keep = [OutgoingRecord(key=b"%d" % n, value=b"%d" % n) for n in range(3)]
            many = [OutgoingRecord(key=b"same", value=b"7")] * 50
            send(connection, topic, [*keep, *many])
            wait_until_compacted(session, topic, 6)

            found = values(read(connection, plan_read(session, topic, LastRecords(4))))

    # What is found depends on how far compaction has come; that it lies on both sides of the gap does not.
    assert len(found) == 4
    assert {2, 7} <= set(found)


def wait_until_compacted(session: AdminSession, topic: str, records_max: int) -> None:
    """Nudge with another write: Kafka closes a segment only when something is appended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        send(session.connection, topic, [OutgoingRecord(key=b"same", value=b"7")])
        time.sleep(0.2)
        if len(list(read(session.connection, plan_read(session, topic, Beginning())))) <= records_max:
            return
    pytest.fail("the topic was not compacted")
