"""Reading: from where the reader asks, as often as it likes, without missing or repeating a record."""

import threading
import time
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    OFFSET_STORED,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.clients import admin_types
from tests.clients.confluent import Confluent, Sent, assign_at, error_code, first_while_sending, take, values
from tests.support.raw_requests import RawRequests
from tests.support.waiting import DEADLINE_S


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


@pytest.mark.parametrize("offset", [0, 1, 57, 98, 99])
def test_reading_starts_at_any_offset_even_inside_a_batch(
    clients: Confluent, topic: str, raw: RawRequests, offset: int
) -> None:
    clients.send(topic, *numbers(0, 100), linger_ms=200)
    assert len(raw.batches(topic)) < 100

    found = clients.read(topic, 100 - offset, offset=offset)

    assert [message.offset() for message in found] == list(range(offset, 100))
    assert values(found) == numbers(offset, 100)


def test_a_reader_sees_records_that_come_later(clients: Confluent, topic: str) -> None:
    consumer = clients.consumer()
    assign_at(consumer, topic)
    producer = clients.producer()

    for number in range(5):
        producer.produce(topic, b"%d" % number)
        producer.flush(DEADLINE_S)
        assert values(take(consumer, 1)) == [b"%d" % number]


def test_a_waiting_reader_is_woken_by_an_append(clients: Confluent, topic: str) -> None:
    # The fetch would wait a minute for a record; the test's deadline is shorter than that.
    consumer = clients.consumer(fetch_wait_max_ms=60_000, fetch_min_bytes=1, socket_timeout_ms=120_000)
    assign_at(consumer, topic, offset=0)
    assert consumer.poll(1.0) is None

    clients.send(topic, b"wake up")

    assert values(take(consumer, 1, within_s=50)) == [b"wake up"]


def test_many_readers_each_get_everything(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=2)
    clients.send(topic, *[Sent(value=value, partition=int(value) % 2) for value in numbers(0, 300)])
    consumers = [clients.consumer(f"{unique}-{number}") for number in range(10)]
    seen: list[list[bytes | None]] = [[] for _ in consumers]

    def read_all(place: int, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        seen[place].extend(values(take(consumer, 300)))

    threads = [threading.Thread(target=read_all, args=pair) for pair in enumerate(consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(sorted(map(int, filter(None, each))) == list(range(300)) for each in seen)


def test_seek_goes_back_and_forth(clients: Confluent, topic: str) -> None:
    clients.send(topic, *numbers(0, 50))
    consumer = clients.consumer()
    assign_at(consumer, topic)
    take(consumer, 30)

    consumer.seek(TopicPartition(topic, 0, 5))
    back = values(take(consumer, 3))
    consumer.seek(TopicPartition(topic, 0, 45))
    forth = values(take(consumer, 5))

    assert (back, forth) == (numbers(5, 8), numbers(45, 50))


def test_a_paused_partition_is_silent_until_it_resumes(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=2)
    consumer = clients.consumer()
    consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    consumer.pause([TopicPartition(topic, 0)])
    clients.send(topic, Sent(value=b"paused", partition=0), Sent(value=b"open", partition=1))

    while_paused = values(take(consumer, 1)) + [each.value() for each in consumer.consume(1, timeout=0.5)]
    consumer.resume([TopicPartition(topic, 0)])

    assert while_paused == [b"open"]
    assert values(take(consumer, 1)) == [b"paused"]


@pytest.mark.parametrize(("policy", "expected"), [("earliest", b"0"), ("latest", b"later")])
def test_a_group_without_offsets_starts_where_its_policy_says(
    clients: Confluent, topic: str, group: str, policy: str, expected: bytes
) -> None:
    clients.send(topic, *numbers(0, 3))
    consumer = clients.consumer(group, auto_offset_reset=policy)
    consumer.subscribe([topic])

    first = first_while_sending(clients.producer(), topic, b"later", consumer)

    assert first.value() == expected


def test_policy_error_tells_the_application(clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, b"there")
    consumer = clients.consumer(group, auto_offset_reset="error")
    consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])

    with pytest.raises(KafkaException) as told:
        take(consumer, 1)

    assert error_code(told.value) == KafkaError._AUTO_OFFSET_RESET


@pytest.mark.parametrize(("policy", "expected"), [("earliest", b"10"), ("latest", b"fresh")])
def test_an_offset_out_of_range_is_reset_by_policy(
    clients: Confluent, topic: str, policy: str, expected: bytes
) -> None:
    clients.send(topic, *numbers(0, 20))
    up_to = TopicPartition(topic, 0, 10)
    clients.admin.delete_records([up_to])[up_to].result(timeout=DEADLINE_S)
    consumer = clients.consumer(auto_offset_reset=policy)
    assign_at(consumer, topic, offset=3)

    first = first_while_sending(clients.producer(), topic, b"fresh", consumer)

    assert first.value() == expected


def test_an_offset_out_of_range_without_a_policy_is_an_error(clients: Confluent, topic: str) -> None:
    clients.send(topic, b"only")
    consumer = clients.consumer(auto_offset_reset="error")
    assign_at(consumer, topic, offset=100)

    with pytest.raises(KafkaException) as told:
        take(consumer, 1)

    assert error_code(told.value) == KafkaError._AUTO_OFFSET_RESET


def test_offsets_are_found_by_timestamp(clients: Confluent, topic: str) -> None:
    start = int(time.time() * 1000) - 100_000
    clients.send(topic, *[Sent(value=b"x", timestamp_ms=start + number * 10) for number in range(100)])
    consumer = clients.consumer()

    def offset_at(timestamp_ms: int) -> int:
        asked = [TopicPartition(topic, 0, timestamp_ms)]
        return int(consumer.offsets_for_times(asked, timeout=DEADLINE_S)[0].offset)

    assert [offset_at(start + shift) for shift in (-5, 0, 1, 10, 505, 990)] == [0, 0, 1, 1, 51, 99]
    assert offset_at(start + 991) == OFFSET_END


def test_offsets_are_listed_earliest_latest_by_timestamp_and_newest(clients: Confluent, topic: str) -> None:
    start = int(time.time() * 1000) - 100_000
    order = [0, 30, 90, 10, 20]
    clients.send(topic, *[Sent(value=b"x", timestamp_ms=start + shift) for shift in order], linger_ms=100)
    up_to = TopicPartition(topic, 0, 1)
    clients.admin.delete_records([up_to])[up_to].result(timeout=DEADLINE_S)

    def listed(spec: Any) -> tuple[int, int]:
        partition = TopicPartition(topic, 0)
        found = clients.admin.list_offsets({partition: spec})[partition].result(timeout=DEADLINE_S)
        return found.offset, found.timestamp

    assert listed(admin_types.EARLIEST)[0] == 1
    assert listed(admin_types.LATEST)[0] == 5
    assert listed(admin_types.at_timestamp(start + 25)) == (1, start + 30)
    assert listed(admin_types.at_timestamp(start + 31)) == (2, start + 90)
    assert listed(admin_types.MAX_TIMESTAMP) == (2, start + 90)


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED])
def test_without_transactions_both_isolation_levels_see_the_same_end(
    clients: Confluent, topic: str, isolation: IsolationLevel
) -> None:
    clients.send(topic, *numbers(0, 7))
    partition = TopicPartition(topic, 0)

    found = clients.admin.list_offsets({partition: admin_types.LATEST}, isolation_level=isolation)

    assert found[partition].result(timeout=DEADLINE_S).offset == 7


def test_a_read_committed_consumer_reads_plain_records(clients: Confluent, topic: str) -> None:
    clients.send(topic, *numbers(0, 7))

    assert values(clients.read(topic, 7, isolation_level="read_committed")) == numbers(0, 7)


def test_the_end_of_a_partition_is_where_the_next_record_goes(clients: Confluent, topic: str) -> None:
    clients.send(topic, *numbers(0, 3))
    consumer = clients.consumer()
    assign_at(consumer, topic, offset=OFFSET_END)

    first = first_while_sending(clients.producer(), topic, b"next", consumer)

    assert (first.value(), (first.offset() or 0) >= 3) == (b"next", True)
