"""Produce, batch by batch: what is taken, what is refused, and with which code."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.support.batches import (
    CODEC_NAMES,
    GZIP,
    LOG_APPEND_TIME,
    Batch,
    Item,
    now_ms,
    values_batch,
)
from tests.support.raw import RawConnection, framed, request_bytes
from tests.support.raw_requests import RawRequests, produce_body
from tests.support.waiting import eventually


def test_a_batch_is_stored_with_its_offset_and_leader_epoch(raw: RawRequests, topic: str) -> None:
    raw.produce(topic, values_batch(b"a", b"b"))

    answer = raw.produce(topic, values_batch(b"c"))

    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.none, 2, 0)
    first, second = raw.batches(topic)
    assert (first.offsets, second.offsets) == ([0, 1], [2])
    assert {first.leader_epoch, second.leader_epoch} == {raw.leader_epoch(topic)}
    assert first.crc_holds
    assert second.crc_holds


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_topic_name_stores(raw: RawRequests, topic: str, version: int) -> None:
    answer = raw.produce(topic, values_batch(b"a"), version=version)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)


def test_version_13_names_the_topic_by_id(raw: RawRequests, connection: RawConnection, topic: str) -> None:
    body = {
        "acks": -1,
        "timeout": 30_000,
        "topic_data": [
            {
                "topic_id": raw.topic_id(topic),
                "partition_data": [{"index": 0, "records": values_batch(b"by id")}],
            }
        ],
    }

    answer = connection.call("produce", 13, **body).responses[0]

    assert answer.topic_id == raw.topic_id(topic)
    assert (answer.partition_responses[0].error_code, raw.end_offset(topic)) == (ErrorCode.none, 1)


@pytest.mark.parametrize("compression", range(5), ids=CODEC_NAMES)
def test_a_compressed_batch_is_kept_as_it_came(raw: RawRequests, topic: str, compression: int) -> None:
    sent = Batch(compression=compression, items=[Item(value=b"x" * 100)] * 20).encode()

    raw.produce(topic, sent)

    found = raw.fetch(topic, 0).records
    assert found[21:] == sent[21:]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(Batch(base_offset=5), ErrorCode.invalid_record, id="base offset not zero"),
        pytest.param(Batch(crc=1), ErrorCode.corrupt_message, id="wrong checksum"),
        pytest.param(Batch(record_count=2), ErrorCode.invalid_record, id="count too high"),
        pytest.param(
            Batch(record_count=2, last_offset_delta=1), ErrorCode.invalid_record, id="fewer records than told"
        ),
        pytest.param(Batch(last_offset_delta=3), ErrorCode.invalid_record, id="last offset too high"),
        pytest.param(
            Batch(items=(), record_count=0, last_offset_delta=0), ErrorCode.invalid_record, id="no records"
        ),
        pytest.param(Batch(magic=1), ErrorCode.invalid_record, id="old format"),
        pytest.param(Batch(magic=3), ErrorCode.corrupt_message, id="format of the future"),
        pytest.param(Batch(attributes=0x20), ErrorCode.invalid_record, id="control batch"),
        pytest.param(
            Batch(base_timestamp=now_ms() + 2 * 86_400_000), ErrorCode.invalid_timestamp, id="two days ahead"
        ),
        pytest.param(
            Batch(compression=GZIP, record_count=2, last_offset_delta=1),
            ErrorCode.invalid_record,
            id="fewer compressed records than told",
        ),
    ],
)
def test_a_batch_that_is_wrong_is_refused_and_not_stored(
    raw: RawRequests, topic: str, batch: Batch, expected: ErrorCode
) -> None:
    answer = raw.produce(topic, batch.encode())

    assert (answer.error_code, answer.base_offset) == (expected, -1)
    assert raw.end_offset(topic) == 0


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(values_batch(b"a") + values_batch(b"b"), id="two batches"),
        pytest.param(values_batch(b"abc")[:-2], id="cut short"),
    ],
)
def test_records_that_are_not_one_batch_are_refused(raw: RawRequests, topic: str, records: bytes) -> None:
    assert raw.produce(topic, records).error_code in (ErrorCode.invalid_record, ErrorCode.corrupt_message)
    assert raw.end_offset(topic) == 0


def test_bytes_that_do_not_decompress_are_refused_where_they_must_be_read(
    raw: RawRequests, unique: str
) -> None:
    topic = raw.create_topic(unique, cleanup_policy="compact")

    answer = raw.produce(topic, Batch(attributes=GZIP).encode())

    assert answer.error_code != ErrorCode.none
    assert raw.end_offset(topic) == 0


def test_a_refused_partition_does_not_spoil_the_others(
    raw: RawRequests, connection: RawConnection, unique: str
) -> None:
    topic = raw.create_topic(unique, partitions=2)
    partitions = [
        {"index": 0, "records": Batch(crc=1).encode()},
        {"index": 1, "records": values_batch(b"good")},
        {"index": 9, "records": values_batch(b"nowhere")},
    ]

    answer = connection.call(
        "produce", 9, acks=-1, timeout=30_000, topic_data=[{"name": topic, "partition_data": partitions}]
    )

    codes = {each.index: each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {
        0: ErrorCode.corrupt_message,
        1: ErrorCode.none,
        9: ErrorCode.unknown_topic_or_partition,
    }


def test_an_unknown_topic_is_refused_and_not_created(raw: RawRequests, unique: str) -> None:
    assert raw.produce(unique, values_batch(b"a")).error_code == ErrorCode.unknown_topic_or_partition
    assert raw.topic_metadata(unique).error_code == ErrorCode.unknown_topic_or_partition


def test_acks_other_than_zero_one_and_all_are_refused(raw: RawRequests, topic: str) -> None:
    answer = raw.produce(topic, values_batch(b"a"), acks=2)

    assert (answer.error_code, raw.end_offset(topic)) == (ErrorCode.invalid_required_acks, 0)


def test_acks_zero_gives_no_response(raw: RawRequests, connection: RawConnection, topic: str) -> None:
    connection.send("produce", 9, **produce_body(topic, values_batch(b"quiet"), acks=0))

    # The next response on this connection answers the next request: nothing came in between.
    assert connection.call("metadata", 9, topics=[]).brokers
    assert eventually(lambda: raw.end_offset(topic) == 1)


def test_acks_zero_with_an_error_closes_the_connection(connection: RawConnection, topic: str) -> None:
    connection.send("produce", 9, **produce_body(topic, Batch(crc=1).encode(), acks=0))

    # A client without answers learns of an error only this way.
    assert connection.is_closed_by_peer()


def test_a_batch_over_the_limit_is_refused(raw: RawRequests, unique: str) -> None:
    topic = raw.create_topic(unique, max_message_bytes="500")
    fits = values_batch(b"x" * (500 - len(values_batch(b"x" * 100)) + 100))

    assert len(fits) == 500
    assert raw.produce(topic, fits).error_code == ErrorCode.none
    assert raw.produce(topic, values_batch(b"x" * 600)).error_code == ErrorCode.message_too_large


def test_a_producer_that_claims_append_time_on_a_create_time_topic_is_corrected(
    raw: RawRequests, topic: str
) -> None:
    answer = raw.produce(topic, Batch(attributes=LOG_APPEND_TIME).encode())

    assert (answer.error_code, answer.log_append_time) == (ErrorCode.none, None)


def test_log_append_time_is_told_in_the_answer_and_stored(raw: RawRequests, unique: str) -> None:
    topic = raw.create_topic(unique, message_timestamp_type="LogAppendTime")

    answer = raw.produce(topic, Batch(base_timestamp=now_ms() - 50_000_000).encode())

    (batch,) = raw.batches(topic)
    assert batch.is_log_append_time
    assert batch.crc_holds
    assert batch.max_timestamp == round(answer.log_append_time.timestamp() * 1000)


def test_the_refused_records_are_named(raw: RawRequests, unique: str) -> None:
    topic = raw.create_topic(unique, cleanup_policy="compact")
    items = [Item(key=b"k", value=b"1"), Item(value=b"2"), Item(key=b"k", value=b"3")]

    answer = raw.produce(topic, Batch(items=items).encode())

    assert answer.error_code == ErrorCode.invalid_record
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert answer.error_message


class Sequence:
    """A producer's numbered batches."""

    def __init__(self, raw: RawRequests, topic: str) -> None:
        self.raw, self.topic = raw, topic
        self.producer_id, self.epoch = raw.producer_id()

    def send(self, sequence: int, count: int = 1, *, epoch: int | None = None) -> tuple[ErrorCode, int]:
        batch = Batch(
            items=[Item(value=b"%d" % (sequence + place)) for place in range(count)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
        )
        answer = self.raw.produce(self.topic, batch.encode())
        return answer.error_code, answer.base_offset


@pytest.fixture
def sequence(raw: RawRequests, topic: str) -> Sequence:
    return Sequence(raw, topic)


def test_producer_ids_differ(raw: RawRequests) -> None:
    assert len({raw.producer_id() for _ in range(5)}) == 5


def test_the_last_five_batches_are_known_as_duplicates(sequence: Sequence, raw: RawRequests) -> None:
    sent = [sequence.send(number) for number in range(7)]

    again = [sequence.send(number) for number in range(2, 7)]

    assert again == sent[2:]
    assert raw.end_offset(sequence.topic) == 7


def test_an_older_batch_is_out_of_order(sequence: Sequence) -> None:
    for number in range(7):
        sequence.send(number)

    assert sequence.send(1) == (ErrorCode.out_of_order_sequence_number, -1)


@pytest.mark.parametrize(("number", "count"), [(4, 1), (9, 1), (1, 1), (2, 2)])
def test_a_gap_or_an_overlap_is_out_of_order(sequence: Sequence, number: int, count: int) -> None:
    sequence.send(0, 3)

    assert sequence.send(number, count) == (ErrorCode.out_of_order_sequence_number, -1)
    assert sequence.send(3) == (ErrorCode.none, 3)


def test_a_new_epoch_starts_at_zero_and_fences_the_old(sequence: Sequence) -> None:
    sequence.send(0, 3)

    assert sequence.send(3, epoch=1) == (ErrorCode.out_of_order_sequence_number, -1)
    assert sequence.send(0, epoch=1) == (ErrorCode.none, 3)
    assert sequence.send(3, epoch=0) == (ErrorCode.invalid_producer_epoch, -1)


def test_an_unknown_producer_may_start_anywhere(sequence: Sequence) -> None:
    assert sequence.send(50) == (ErrorCode.none, 0)
    assert sequence.send(51) == (ErrorCode.none, 1)


def test_sequences_go_round_after_the_largest(sequence: Sequence) -> None:
    largest = 2**31 - 1

    assert sequence.send(largest - 1, 3) == (ErrorCode.none, 0)
    assert sequence.send(1) == (ErrorCode.none, 3)


def test_each_partition_counts_for_itself(raw: RawRequests, unique: str) -> None:
    topic = raw.create_topic(unique, partitions=2)
    producer_id, epoch = raw.producer_id()
    batch = Batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=0).encode()

    answers = [raw.produce(topic, batch, partition=partition) for partition in (0, 1)]

    assert [(each.error_code, each.base_offset) for each in answers] == [(ErrorCode.none, 0)] * 2


def test_pipelined_produces_are_answered_and_stored_in_order(
    raw: RawRequests, connection: RawConnection, topic: str
) -> None:
    ids = [
        connection.send(
            "produce", 9, **produce_body(topic, values_batch(b"%d" % number), acks=number % 3 - 1)
        )
        for number in range(60)
    ]

    # acks goes -1, 0, 1: those with 0 get no answer.
    answered = [each for place, each in enumerate(ids) if place % 3 != 1]
    offsets = [
        connection.receive("produce", 9, each).responses[0].partition_responses[0].base_offset
        for each in answered
    ]

    assert offsets == [place for place in range(60) if place % 3 != 1]
    stored = [item.value for batch in raw.batches(topic) for item in batch.items]
    assert stored == [b"%d" % number for number in range(60)]


def test_a_request_split_into_single_bytes_is_understood(
    raw: RawRequests, connection: RawConnection, topic: str
) -> None:
    request = framed(request_bytes("produce", 9, produce_body(topic, values_batch(b"slow")), 77))

    for position in range(len(request)):
        connection.send_bytes(request[position : position + 1])

    (correlation_id,) = struct.unpack_from(">i", connection.receive_frame())
    assert (correlation_id, raw.end_offset(topic)) == (77, 1)
