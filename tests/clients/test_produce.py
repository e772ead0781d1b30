"""What a producer sends is what the log holds, or the producer is told why not."""

import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from tests.clients.confluent import Confluent, Sent, error_code, send_with, values
from tests.support.batches import CODEC_NAMES
from tests.support.raw_requests import RawRequests
from tests.support.waiting import eventually


def test_key_value_headers_and_timestamp_come_back_as_they_were_sent(clients: Confluent, topic: str) -> None:
    headers = (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("null", None))
    yesterday = int(time.time() * 1000) - 86_400_000

    clients.send(topic, Sent(key=b"k", value=b"v", headers=headers, timestamp_ms=yesterday))

    (found,) = clients.read(topic, 1)
    assert (found.key(), found.value(), found.headers()) == (b"k", b"v", list(headers))
    assert found.timestamp() == (TIMESTAMP_CREATE_TIME, yesterday)


def test_null_and_empty_keys_and_values_are_told_apart(clients: Confluent, topic: str) -> None:
    sent = [Sent(key=None, value=None), Sent(key=b"", value=b""), Sent(key=b"k"), Sent(value=b"v")]

    clients.send(topic, *sent)

    found = clients.read(topic, 4)
    assert [(each.key(), each.value()) for each in found] == [(each.key, each.value) for each in sent]


def test_offsets_count_up_from_zero_without_gaps(clients: Confluent, topic: str) -> None:
    delivered = clients.send(topic, *[b"%d" % number for number in range(500)])

    assert [message.offset() for message in delivered] == list(range(500))
    assert values(clients.read(topic, 500)) == [b"%d" % number for number in range(500)]


def test_records_of_one_key_stay_in_one_partition_in_order(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=4)

    sent = clients.send(topic, *[Sent(key=b"key-%d" % (n % 7), value=b"%d" % n) for n in range(200)])

    homes = {(message.key(), message.partition()) for message in sent}
    assert len(homes) == 7
    (home,) = {message.partition() or 0 for message in sent if message.key() == b"key-3"}
    read = [message for message in clients.read_to_end(topic, partition=home) if message.key() == b"key-3"]
    assert values(read) == [b"%d" % number for number in range(3, 200, 7)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_level_stores_what_was_sent(clients: Confluent, topic: str, acks: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(100)], acks=acks)

    assert values(clients.read(topic, 100)) == [b"%d" % number for number in range(100)]


def test_an_idempotent_producer_writes_each_record_once(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=2)

    clients.send(topic, *[b"%d" % number for number in range(2_000)], enable_idempotence=True)

    stored = values([*clients.read_to_end(topic, partition=0), *clients.read_to_end(topic, partition=1)])
    assert sorted(stored, key=lambda each: int(each or b"-1")) == [b"%d" % n for n in range(2_000)]


def test_an_idempotent_batch_carries_the_producers_id(
    clients: Confluent, topic: str, raw: RawRequests
) -> None:
    clients.send(topic, b"once", enable_idempotence=True)

    (batch,) = raw.batches(topic)

    assert batch.producer_id >= 0


def test_a_large_message_is_stored_whole(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=9_000_000)
    large = bytes(range(256)) * 32_000

    clients.send(topic, large, message_max_bytes=9_000_000)

    assert values(clients.read(topic, 1)) == [large]


def test_a_large_message_is_read_by_a_consumer_with_small_limits(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=5_000_000)
    clients.send(topic, b"x" * 4_000_000, b"small", message_max_bytes=5_000_000)

    found = clients.read(topic, 2, max_partition_fetch_bytes=1_000, fetch_max_bytes=5_000_000)

    assert [len(each or b"") for each in values(found)] == [4_000_000, 5]


def test_a_batch_over_max_message_bytes_is_refused(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=10_000)

    with pytest.raises(KafkaException) as refused:
        clients.send(topic, b"x" * 10_001)

    assert error_code(refused.value) == KafkaError.MSG_SIZE_TOO_LARGE
    assert clients.watermarks(topic) == (0, 0)


def test_max_message_bytes_counts_the_compressed_batch(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=10_000)

    clients.send(topic, b"x" * 100_000, compression_type="zstd")

    assert values(clients.read(topic, 1)) == [b"x" * 100_000]


def test_a_changed_max_message_bytes_holds_for_the_next_batch(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=200)
    producer = clients.producer()
    with pytest.raises(KafkaException):
        send_with(producer, topic, [b"x" * 1_000])

    clients.alter_topic(topic, max_message_bytes="100000")

    def is_taken() -> bool:
        try:
            return bool(send_with(producer, topic, [b"x" * 1_000]))
        except KafkaException:
            return False

    assert eventually(is_taken)


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4"])
def test_log_append_time_replaces_the_producers_time(
    clients: Confluent, unique: str, compression: str
) -> None:
    topic = clients.create_topic(unique, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)

    clients.send(
        topic,
        *[Sent(value=b"%d" % number, timestamp_ms=1_000) for number in range(20)],
        compression_type=compression,
    )

    after = int(time.time() * 1000)
    found = clients.read(topic, 20)
    assert {message.timestamp()[0] for message in found} == {TIMESTAMP_LOG_APPEND_TIME}
    assert all(before <= message.timestamp()[1] <= after for message in found)


@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", ["none", "zstd"])
def test_compression_type_of_the_topic_decides_how_batches_are_stored(
    clients: Confluent, raw: RawRequests, unique: str, stored: str, sent: str
) -> None:
    topic = clients.create_topic(unique, compression_type=stored)

    clients.send(topic, *[b"%d" % number * 50 for number in range(50)], compression_type=sent)

    batches = raw.batches(topic)
    expected = CODEC_NAMES.index(stored.replace("uncompressed", "none"))
    assert {batch.compression for batch in batches} == {expected}
    assert all(batch.crc_holds for batch in batches)
    assert values(clients.read(topic, 50)) == [b"%d" % number * 50 for number in range(50)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_stored_with_the_producers_compression_by_default(
    clients: Confluent, raw: RawRequests, topic: str, compression: str
) -> None:
    clients.send(topic, *[b"same" * 25] * 50, compression_type=compression)

    assert {batch.compression for batch in raw.batches(topic)} == {CODEC_NAMES.index(compression)}


def test_a_keyless_record_is_refused_by_a_compacted_topic(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, cleanup_policy="compact")

    with pytest.raises(KafkaException) as refused:
        clients.send(topic, Sent(value=b"no key"))

    assert error_code(refused.value) == KafkaError.INVALID_RECORD


def test_a_compacted_topic_checks_keys_inside_compressed_batches(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, cleanup_policy="compact")

    with pytest.raises(KafkaException) as refused:
        clients.send(topic, Sent(value=b"no key" * 100), compression_type="lz4")

    assert error_code(refused.value) == KafkaError.INVALID_RECORD


def test_a_timestamp_too_far_ahead_is_refused(clients: Confluent, topic: str) -> None:
    in_two_days = int(time.time() * 1000) + 2 * 86_400_000

    with pytest.raises(KafkaException) as refused:
        clients.send(topic, Sent(value=b"early", timestamp_ms=in_two_days))

    assert error_code(refused.value) == KafkaError.INVALID_TIMESTAMP


def test_a_timestamp_too_far_behind_is_refused_where_the_topic_asks(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, message_timestamp_before_max_ms=60_000)
    an_hour_ago = int(time.time() * 1000) - 3_600_000

    with pytest.raises(KafkaException) as refused:
        clients.send(topic, Sent(value=b"late", timestamp_ms=an_hour_ago))

    assert error_code(refused.value) == KafkaError.INVALID_TIMESTAMP


def test_more_min_insync_replicas_than_exist_count_as_all_that_exist(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, min_insync_replicas=2)

    delivered = clients.send(topic, b"one replica", acks="all")

    assert [message.offset() for message in delivered] == [0]


def test_a_partition_that_is_not_there_is_refused(clients: Confluent, topic: str) -> None:
    with pytest.raises(KafkaException) as refused:
        clients.send(topic, Sent(value=b"lost", partition=7))

    assert error_code(refused.value) in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
