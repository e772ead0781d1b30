"""Fetch, byte by byte: limits, waits, epochs, sessions, topic ids; and the requests that find offsets."""

import threading
import time
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.support.batches import Batch, Item, decode, now_ms, values_batch
from tests.support.raw import RawConnection
from tests.support.raw_requests import EARLIEST, LATEST, MAX_TIMESTAMP, RawRequests
from tests.support.waiting import eventually

LARGE = 50_000_000


@pytest.fixture
def filled(raw: RawRequests, topic: str) -> str:
    """A topic with three batches of ten records."""
    for _ in range(3):
        raw.produce(topic, values_batch(*[b"value-%d" % number for number in range(10)]))
    return topic


@pytest.mark.parametrize(("offset", "first_batch"), [(0, 0), (5, 0), (9, 0), (10, 10), (15, 10), (29, 20)])
def test_the_first_batch_is_the_one_that_holds_the_offset(
    raw: RawRequests, filled: str, offset: int, first_batch: int
) -> None:
    assert [batch.base_offset for batch in raw.batches(filled, offset)] == list(range(first_batch, 30, 10))


def test_an_answer_tells_the_partitions_bounds(raw: RawRequests, filled: str) -> None:
    found = raw.fetch(filled, 0)

    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (30, 30, 0)
    assert not found.aborted_transactions


@pytest.mark.parametrize("offset", [-1, 31, 1_000_000])
def test_an_offset_outside_the_log_is_out_of_range(raw: RawRequests, filled: str, offset: int) -> None:
    assert raw.fetch(filled, offset).error_code == ErrorCode.offset_out_of_range


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_topic_name_reads(raw: RawRequests, filled: str, version: int) -> None:
    found = raw.fetch(filled, 0, version=version) if version >= 7 else old_fetch(raw, filled, version)

    assert [batch.base_offset for batch in decode(found.records)] == [0, 10, 20]


def old_fetch(raw: RawRequests, topic: str, version: int) -> Any:
    """Versions without sessions carry no error code of their own."""
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": LARGE}]
    answer = raw.connection.call(
        "fetch",
        version,
        replica_id=-1,
        max_wait=100,
        min_bytes=1,
        max_bytes=LARGE,
        topics=[{"topic": topic, "partitions": partitions}],
    )
    return answer.responses[0].partitions[0]


def fetch_by_id(connection: RawConnection, topic_id: uuid.UUID | None, version: int) -> Any:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": LARGE}]
    answer = connection.call(
        "fetch",
        version,
        max_wait=100,
        min_bytes=1,
        max_bytes=LARGE,
        topics=[{"topic_id": topic_id, "partitions": partitions}],
    )
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_by_topic_id_reads(
    raw: RawRequests, connection: RawConnection, filled: str, version: int
) -> None:
    found = fetch_by_id(connection, raw.topic_id(filled), version)

    assert [batch.base_offset for batch in decode(found.records)] == [0, 10, 20]


@pytest.mark.parametrize("topic_id", [uuid.UUID(int=1 << 80), None], ids=["unknown", "zero"])
def test_a_topic_id_that_is_not_known_is_refused(
    connection: RawConnection, topic_id: uuid.UUID | None
) -> None:
    assert fetch_by_id(connection, topic_id, 16).error_code == ErrorCode.unknown_topic_id


def test_an_id_of_a_deleted_topic_is_not_known_any_more(
    raw: RawRequests, connection: RawConnection, filled: str
) -> None:
    topic_id = raw.topic_id(filled)
    connection.call("delete_topics", 6, topics=[{"name": filled}], timeout=30_000)

    assert eventually(lambda: fetch_by_id(connection, topic_id, 16).error_code == ErrorCode.unknown_topic_id)


@pytest.mark.parametrize(("max_bytes", "partition_max_bytes"), [(1, LARGE), (LARGE, 1), (0, 0)])
def test_at_least_one_batch_comes_whatever_the_limits(
    raw: RawRequests, filled: str, max_bytes: int, partition_max_bytes: int
) -> None:
    found = raw.fetch(filled, 12, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes)

    assert [batch.base_offset for batch in decode(found.records)] == [10]


def test_no_more_than_the_partitions_limit_comes(raw: RawRequests, filled: str) -> None:
    size = raw.batches(filled)[0].size

    found = raw.fetch(filled, 0, partition_max_bytes=2 * size + 10)

    assert [batch.base_offset for batch in decode(found.records)] == [0, 10]
    assert len(found.records) <= 2 * size + 10


def test_the_requests_limit_is_shared_by_its_partitions(
    raw: RawRequests, connection: RawConnection, unique: str
) -> None:
    topic = raw.create_topic(unique, partitions=3)
    for partition in range(3):
        raw.produce(topic, values_batch(b"x" * 10_000), partition=partition)
    partitions = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": LARGE} for each in range(3)]

    answer = connection.call(
        "fetch",
        12,
        replica_id=-1,
        max_wait=100,
        min_bytes=1,
        max_bytes=15_000,
        topics=[{"topic": topic, "partitions": partitions}],
    )

    sizes = [len(decode(each.records)) for each in answer.responses[0].partitions]
    assert sum(sizes) == 1


def test_a_fetch_at_the_end_waits_as_long_as_it_said(raw: RawRequests, filled: str) -> None:
    started = time.monotonic()

    found = raw.fetch(filled, 30, max_wait_ms=700, min_bytes=1)

    assert (found.error_code, found.records or b"") == (ErrorCode.none, b"")
    assert time.monotonic() - started > 0.6


def test_a_fetch_that_wants_nothing_answers_at_once(raw: RawRequests, filled: str) -> None:
    # With max_wait of 50 s the connection's own timeout would end the test first if the fetch waited it out.
    raw.connection.socket.settimeout(40)

    found = raw.fetch(filled, 30, max_wait_ms=50_000, min_bytes=0)

    assert found.error_code == ErrorCode.none


def test_an_append_wakes_a_waiting_fetch(raw: RawRequests, bootstrap: str, filled: str) -> None:
    raw.connection.socket.settimeout(40)
    found: list[int] = []

    def wait_for_the_next_record() -> None:
        answer = raw.fetch(filled, 30, max_wait_ms=50_000)
        found.extend(batch.base_offset for batch in decode(answer.records))

    reader = threading.Thread(target=wait_for_the_next_record)
    reader.start()
    time.sleep(0.3)  # let the fetch reach the broker first; the case holds either way
    with RawConnection(bootstrap) as other:
        RawRequests(other).produce(filled, values_batch(b"news"))
    reader.join()

    assert found == [30]


def test_min_bytes_waits_for_enough(raw: RawRequests, bootstrap: str, topic: str) -> None:
    raw.connection.socket.settimeout(40)
    found: list[int] = []

    def wait_for_enough() -> None:
        answer = raw.fetch(topic, 0, max_wait_ms=50_000, min_bytes=5_000)
        found.append(len(answer.records))

    reader = threading.Thread(target=wait_for_enough)
    reader.start()
    with RawConnection(bootstrap) as other:
        for _ in range(6):
            RawRequests(other).produce(topic, values_batch(b"x" * 1_000))
    reader.join()

    assert found[0] >= 5_000


def test_an_error_is_answered_without_waiting(raw: RawRequests, topic: str) -> None:
    raw.connection.socket.settimeout(40)

    found = raw.fetch(topic, 99, max_wait_ms=50_000)

    assert found.error_code == ErrorCode.offset_out_of_range


def test_the_leaders_own_epoch_is_taken(raw: RawRequests, filled: str) -> None:
    found = raw.fetch(filled, 0, leader_epoch=raw.leader_epoch(filled))

    assert found.error_code == ErrorCode.none


def test_an_epoch_of_the_future_is_unknown(raw: RawRequests, filled: str) -> None:
    found = raw.fetch(filled, 0, leader_epoch=raw.leader_epoch(filled) + 1)

    assert found.error_code == ErrorCode.unknown_leader_epoch


def test_an_unknown_topic_or_partition_is_told_for_it_alone(
    raw: RawRequests, connection: RawConnection, filled: str
) -> None:
    def asked(topic: str, partition: int) -> dict[str, object]:
        wanted = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": LARGE}
        return {"topic": topic, "partitions": [wanted]}

    answer = connection.call(
        "fetch",
        12,
        replica_id=-1,
        max_wait=100,
        min_bytes=1,
        max_bytes=LARGE,
        topics=[asked(filled, 0), asked(filled + "-not", 0)],
    )

    codes = {each.topic: each.partitions[0].error_code for each in answer.responses}
    assert codes == {filled: ErrorCode.none, filled + "-not": ErrorCode.unknown_topic_or_partition}
    assert raw.fetch(filled, 0, partition=9).error_code == ErrorCode.unknown_topic_or_partition


class Session:
    """Fetches by name inside a fetch session."""

    def __init__(self, connection: RawConnection) -> None:
        self.connection = connection

    def fetch(
        self, session_id: int, epoch: int, wanted: dict[str, int], forgotten: tuple[str, ...] = ()
    ) -> Any:
        topics = [
            {
                "topic": topic,
                "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": LARGE}],
            }
            for topic, offset in wanted.items()
        ]
        return self.connection.call(
            "fetch",
            12,
            replica_id=-1,
            max_wait=100,
            min_bytes=1,
            max_bytes=LARGE,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=[{"topic": topic, "partitions": [0]} for topic in forgotten],
        )


@pytest.fixture
def session(connection: RawConnection) -> Session:
    return Session(connection)


def test_a_session_tells_only_what_is_new(session: Session, raw: RawRequests, filled: str) -> None:
    opened = session.fetch(0, 0, {filled: 0})
    assert opened.session_id != 0

    moved = session.fetch(opened.session_id, 1, {filled: 30})
    raw.produce(filled, values_batch(b"new"))
    news = session.fetch(opened.session_id, 2, {})

    assert (moved.session_id, moved.responses) == (opened.session_id, ())
    assert [batch.base_offset for batch in decode(news.responses[0].partitions[0].records)] == [30]


def test_a_session_forgets_partitions(session: Session, filled: str) -> None:
    opened = session.fetch(0, 0, {filled: 0})

    answer = session.fetch(opened.session_id, 1, {}, forgotten=(filled,))

    assert (answer.error_code, answer.responses) == (ErrorCode.none, ())


def test_a_session_takes_partitions_later(
    session: Session, raw: RawRequests, filled: str, unique: str
) -> None:
    other = raw.create_topic(f"{unique}-other")
    raw.produce(other, values_batch(b"there"))
    opened = session.fetch(0, 0, {filled: 30})

    answer = session.fetch(opened.session_id, 1, {other: 0})

    assert [each.topic for each in answer.responses] == [other]


def test_a_session_refuses_another_epoch(session: Session, filled: str) -> None:
    opened = session.fetch(0, 0, {filled: 0})

    answer = session.fetch(opened.session_id, 7, {})

    assert answer.error_code == ErrorCode.invalid_fetch_session_epoch


def test_an_unknown_session_is_refused(session: Session, filled: str) -> None:
    opened = session.fetch(0, 0, {filled: 0})

    answer = session.fetch(opened.session_id ^ 0x55, 1, {})

    assert answer.error_code == ErrorCode.fetch_session_id_not_found


def test_a_closed_session_is_gone(session: Session, filled: str) -> None:
    opened = session.fetch(0, 0, {filled: 0})

    last = session.fetch(opened.session_id, -1, {filled: 0})
    after = session.fetch(opened.session_id, 1, {})

    assert (last.error_code, last.session_id, len(last.responses)) == (ErrorCode.none, 0, 1)
    assert after.error_code == ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_list_offsets_finds_both_ends(raw: RawRequests, filled: str, version: int) -> None:
    def listed(timestamp: int) -> int:
        partitions = [{"partition_index": 0, "timestamp": timestamp}]
        answer = raw.connection.call(
            "list_offsets", version, replica_id=-1, topics=[{"name": filled, "partitions": partitions}]
        )
        return int(answer.topics[0].partitions[0].offset)

    assert (listed(EARLIEST), listed(LATEST)) == (0, 30)


def test_offsets_are_found_by_timestamp_inside_a_compressed_batch(raw: RawRequests, topic: str) -> None:
    start = now_ms() - 10_000
    for base in (0, 1_000):
        items = [Item(value=b"x", timestamp_delta=number * 10) for number in range(10)]
        raw.produce(topic, Batch(items=items, base_timestamp=start + base, compression=4).encode())

    def found(timestamp: int) -> tuple[int, int]:
        answer = raw.list_offsets(topic, timestamp)
        return answer.offset, answer.timestamp - start if answer.offset >= 0 else -1

    assert found(start) == (0, 0)
    assert found(start + 35) == (4, 40)
    assert found(start + 91) == (10, 1_000)
    assert found(start + 1_091) == (-1, -1)
    assert found(MAX_TIMESTAMP) == (19, 1_090)


def test_the_newest_timestamp_of_an_empty_partition_is_nowhere(raw: RawRequests, topic: str) -> None:
    found = raw.list_offsets(topic, MAX_TIMESTAMP)

    assert (found.error_code, found.offset) == (ErrorCode.none, -1)


def test_offsets_of_what_is_not_there_are_refused(raw: RawRequests, filled: str) -> None:
    codes = [
        raw.list_offsets(filled + "-not", LATEST).error_code,
        raw.list_offsets(filled, LATEST, partition=9).error_code,
    ]

    assert codes == [ErrorCode.unknown_topic_or_partition] * 2


def epoch_end(raw: RawRequests, topic: str, epoch: int, *, current: int = -1) -> Any:
    partitions = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
    answer = raw.connection.call(
        "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": partitions}]
    )
    return answer.topics[0].partitions[0]


def test_the_present_epoch_ends_at_the_end_of_the_log(raw: RawRequests, filled: str) -> None:
    epoch = raw.leader_epoch(filled)

    found = epoch_end(raw, filled, epoch)

    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.none, epoch, 30)


def test_an_epoch_that_never_was_has_no_end(raw: RawRequests, filled: str) -> None:
    found = epoch_end(raw, filled, raw.leader_epoch(filled) + 5)

    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.none, -1, -1)


def test_asking_as_of_a_future_epoch_is_refused(raw: RawRequests, filled: str) -> None:
    epoch = raw.leader_epoch(filled)

    found = epoch_end(raw, filled, epoch, current=epoch + 1)

    assert found.error_code == ErrorCode.unknown_leader_epoch
