import pytest

from millstream.client.connection import Connection
from millstream.client.errors import BrokerRefused, UnknownPartition, UnknownTopic
from millstream.client.offsets import (
    OffsetSpan,
    TimedOffset,
    delete_records_before,
    newest,
    offset_spans,
    offsets_at,
    partitions_of,
)
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.model.topics import TopicPartition
from tests.client.sending import send
from tests.client.times import MINUTE_MS, NOW_MS


@pytest.fixture
def filled(connection: Connection, topic: str) -> TopicPartition:
    """Partition 1 of a topic, with records one minute apart up to now."""
    records = [
        OutgoingRecord(value=b"v", partition=1, timestamp_ms=NOW_MS - (4 - n) * MINUTE_MS) for n in range(5)
    ]
    send(connection, topic, records)
    return TopicPartition(topic, 1)


def test_a_span_goes_from_the_first_offset_to_the_next(session: AdminSession, filled: TopicPartition) -> None:
    spans = offset_spans(session, partitions_of(session, filled.topic))

    assert spans[filled] == OffsetSpan(start=0, end=5)
    assert spans[TopicPartition(filled.topic, 0)].count == 0


def test_a_time_finds_the_first_record_at_or_after_it(session: AdminSession, filled: TopicPartition) -> None:
    found = offsets_at(session, [filled], NOW_MS - 3 * MINUTE_MS - 1)

    assert found == {filled: TimedOffset(offset=1, timestamp_ms=NOW_MS - 3 * MINUTE_MS)}


def test_a_time_after_every_record_finds_none(session: AdminSession, filled: TopicPartition) -> None:
    assert offsets_at(session, [filled], NOW_MS + MINUTE_MS) == {filled: None}


def test_the_newest_record_is_found_by_its_time(session: AdminSession, filled: TopicPartition) -> None:
    empty = TopicPartition(filled.topic, 0)

    assert newest(session, [filled, empty]) == {
        filled: TimedOffset(offset=4, timestamp_ms=NOW_MS),
        empty: None,
    }


def test_deleting_records_moves_the_start(session: AdminSession, filled: TopicPartition) -> None:
    assert delete_records_before(session, {filled: 3}) == {filled: 3}

    assert offset_spans(session, [filled])[filled] == OffsetSpan(start=3, end=5)


def test_deleting_beyond_the_end_is_refused(session: AdminSession, filled: TopicPartition) -> None:
    with pytest.raises(BrokerRefused, match=f"{filled}.*OFFSET_OUT_OF_RANGE"):
        delete_records_before(session, {filled: 99})


def test_a_partition_that_is_not_there_is_told_with_those_that_are(session: AdminSession, topic: str) -> None:
    with pytest.raises(UnknownPartition, match=r"no partition 7: it has 3 \(0 to 2\)"):
        partitions_of(session, topic, [7])


def test_spans_of_what_does_not_exist_are_refused(session: AdminSession, topic: str) -> None:
    with pytest.raises((UnknownPartition, UnknownTopic)):
        offset_spans(session, [TopicPartition(topic, 9)])
