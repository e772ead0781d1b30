"""What the log lets go of, and what it keeps, as a client sees it.

Kafka closes a segment only on an append, so these tests nudge: they append a record and look again.
The node checks often (`log.retention.check.interval.ms`, `log.cleaner.backoff.ms`; see conftest).
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from tests.clients.confluent import Confluent, Sent
from tests.support.raw_requests import EARLIEST, RawRequests
from tests.support.waiting import DEADLINE_S, eventually

SOON: dict[str, Any] = {"segment_ms": 150, "min_cleanable_dirty_ratio": 0.01, "delete_retention_ms": 100}
TWO_HOURS_MS = 7_200_000


def now_ms() -> int:
    return int(time.time() * 1000)


class Compacted:
    """A compacted topic that is written, nudged and read."""

    def __init__(self, clients: Confluent, topic: str) -> None:
        self.clients, self.topic = clients, topic

    def send(self, *pairs: tuple[str, str | None]) -> list[int]:
        """The offsets of these (key, value) pairs."""
        records = [
            Sent(key=key.encode(), value=None if value is None else value.encode()) for key, value in pairs
        ]
        return [message.offset() or 0 for message in self.clients.send(self.topic, *records)]

    def kept(self) -> list[tuple[int, str, str | None]]:
        """(offset, key, value) of every record but the nudges."""
        return [triple(each) for each in self.clients.read_to_end(self.topic) if each.key() != b"nudge"]

    def nudge_until(self, condition: Callable[[], object]) -> None:
        def nudged() -> object:
            self.send(("nudge", str(now_ms())))
            return condition()

        eventually(nudged, every_s=0.2)


def triple(message: Message) -> tuple[int, str, str | None]:
    value = message.value()
    return message.offset() or 0, (message.key() or b"").decode(), None if value is None else value.decode()


def test_compaction_keeps_the_last_value_of_each_key_at_its_offset(clients: Confluent, unique: str) -> None:
    log = Compacted(clients, clients.create_topic(unique, cleanup_policy="compact", **SOON))
    log.send(*[(f"key-{number % 3}", f"value-{number}") for number in range(30)])

    expected = [(27, "key-0", "value-27"), (28, "key-1", "value-28"), (29, "key-2", "value-29")]
    log.nudge_until(lambda: log.kept() == expected)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compacted_batches_stay_readable_in_every_compression(
    clients: Confluent, unique: str, compression: str
) -> None:
    log = Compacted(clients, clients.create_topic(unique, cleanup_policy="compact", **SOON))
    records = [Sent(key=b"key-%d" % (number % 3), value=b"%d" % number * 50) for number in range(30)]
    clients.send(log.topic, *records, compression_type=compression, linger_ms=50)

    expected = [(number, f"key-{number % 3}", str(number) * 50) for number in (27, 28, 29)]
    log.nudge_until(lambda: log.kept() == expected)


def test_a_tombstone_removes_its_key_and_then_itself(clients: Confluent, unique: str) -> None:
    log = Compacted(clients, clients.create_topic(unique, cleanup_policy="compact", **SOON))
    log.send(("gone", "1"), ("kept", "1"), ("gone", "2"), ("gone", None))

    log.nudge_until(lambda: log.kept() == [(1, "kept", "1")])


def test_a_tombstone_stays_for_delete_retention_ms(clients: Confluent, unique: str) -> None:
    patient = Compacted(
        clients,
        clients.create_topic(
            f"{unique}-a", cleanup_policy="compact", **{**SOON, "delete_retention_ms": 3_600_000}
        ),
    )
    hasty = Compacted(clients, clients.create_topic(f"{unique}-b", cleanup_policy="compact", **SOON))
    for log in (patient, hasty):
        log.send(("gone", "1"), ("gone", None))

    def both_cleaned() -> bool:
        patient.send(("nudge", str(now_ms())))
        return hasty.kept() == [] and patient.kept() == [(1, "gone", None)]

    hasty.nudge_until(both_cleaned)


def test_min_compaction_lag_protects_young_records(clients: Confluent, unique: str) -> None:
    protected = Compacted(
        clients,
        clients.create_topic(
            f"{unique}-a", cleanup_policy="compact", min_compaction_lag_ms=3_600_000, **SOON
        ),
    )
    plain = Compacted(clients, clients.create_topic(f"{unique}-b", cleanup_policy="compact", **SOON))
    for log in (protected, plain):
        log.send(("key", "1"), ("key", "2"))

    def plain_is_cleaned() -> bool:
        protected.send(("nudge", str(now_ms())))
        return plain.kept() == [(1, "key", "2")]

    plain.nudge_until(plain_is_cleaned)

    assert protected.kept() == [(0, "key", "1"), (1, "key", "2")]


def test_a_consumer_passes_over_the_gaps_that_compaction_leaves(
    clients: Confluent, raw: RawRequests, unique: str
) -> None:
    log = Compacted(clients, clients.create_topic(unique, cleanup_policy="compact", **SOON))
    log.send(*[("key", str(number)) for number in range(50)])
    log.nudge_until(lambda: log.kept() == [(49, "key", "49")])

    (found,) = clients.read(log.topic, 1, offset=10)

    assert found.offset() == 49
    assert raw.fetch(log.topic, 10).error_code == 0
    assert clients.watermarks(log.topic)[0] == 0


def test_a_topic_that_compacts_and_deletes_does_both(clients: Confluent, unique: str) -> None:
    log = Compacted(
        clients,
        clients.create_topic(unique, cleanup_policy="compact,delete", retention_ms=3_600_000, **SOON),
    )
    old = [Sent(key=b"old", value=b"%d" % n, timestamp_ms=now_ms() - TWO_HOURS_MS) for n in range(3)]
    clients.send(log.topic, *old)
    eventually(lambda: clients.watermarks(log.topic)[0] >= 3)
    first, last = log.send(("young", "1"), ("young", "2"))

    log.nudge_until(lambda: log.kept() == [(last, "young", "2")])
    assert first >= 3


def test_records_older_than_retention_are_let_go(clients: Confluent, raw: RawRequests, unique: str) -> None:
    topic = clients.create_topic(unique, retention_ms=3_600_000)
    old = [Sent(value=b"%d" % number, timestamp_ms=now_ms() - TWO_HOURS_MS) for number in range(10)]

    clients.send(topic, *old)

    eventually(lambda: clients.watermarks(topic) == (10, 10))
    assert raw.fetch(topic, 3).error_code == 1
    assert clients.send(topic, b"young")[0].offset() == 10


def test_records_younger_than_retention_stay(clients: Confluent, unique: str) -> None:
    kept = clients.create_topic(f"{unique}-kept", retention_ms=-1)
    dropped = clients.create_topic(f"{unique}-dropped", retention_ms=3_600_000)
    for topic in (kept, dropped):
        clients.send(topic, Sent(value=b"old", timestamp_ms=now_ms() - TWO_HOURS_MS))

    eventually(lambda: clients.watermarks(dropped) == (1, 1))

    assert clients.watermarks(kept) == (0, 1)


def test_a_changed_retention_takes_hold(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, retention_ms=-1)
    clients.send(topic, Sent(value=b"old", timestamp_ms=now_ms() - TWO_HOURS_MS))
    assert clients.watermarks(topic) == (0, 1)

    clients.alter_topic(topic, retention_ms="3600000")

    eventually(lambda: clients.watermarks(topic) == (1, 1))


def test_retention_goes_by_the_newest_record_of_a_segment(clients: Confluent, unique: str) -> None:
    # One segment holds an old and a young record: it stays whole.
    mixed = clients.create_topic(f"{unique}-mixed", retention_ms=3_600_000)
    old = clients.create_topic(f"{unique}-old", retention_ms=3_600_000)
    dated = Sent(value=b"old", timestamp_ms=now_ms() - TWO_HOURS_MS)
    clients.send(mixed, Sent(value=b"young"), dated)
    clients.send(old, dated)

    eventually(lambda: clients.watermarks(old) == (1, 1))

    assert clients.watermarks(mixed) == (0, 2)


def test_a_segment_holds_no_more_than_segment_ms_of_record_time(clients: Confluent, unique: str) -> None:
    # History loaded from elsewhere: if old and young shared a segment, the old would stay with the young.
    topic = clients.create_topic(unique, retention_ms=3_600_000, segment_ms=600_000)

    clients.send(topic, Sent(value=b"old", timestamp_ms=now_ms() - TWO_HOURS_MS))
    clients.send(topic, Sent(value=b"young"))

    eventually(lambda: clients.watermarks(topic) == (1, 2))


def test_a_log_over_its_size_lets_its_oldest_segments_go(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, segment_bytes=1_048_576, retention_bytes=1_500_000)

    for _ in range(5):
        clients.send(topic, b"x" * 900_000)

    eventually(lambda: 2 <= clients.watermarks(topic)[0] <= 4)
    assert clients.watermarks(topic)[1] == 5


def test_deleted_records_and_retention_tell_the_same_start(
    clients: Confluent, raw: RawRequests, topic: str
) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])
    up_to = TopicPartition(topic, 0, 4)

    clients.admin.delete_records([up_to])[up_to].result(timeout=DEADLINE_S)

    assert raw.list_offsets(topic, EARLIEST).offset == 4
    assert raw.fetch(topic, 4).log_start_offset == 4
    assert raw.fetch(topic, 3).error_code == 1
