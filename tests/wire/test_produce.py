"""The hand-made Produce against the general codec, which is itself held to kio."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.wire.apis import ApiKey
from millstream.wire.errors import MalformedRequest
from millstream.wire.frames import parse_response_header
from millstream.wire.produce import PartitionResult, ProduceShape, read_produce, write_produce_response
from millstream.wire.schema import request_writer, response_reader

VERSIONS = range(3, 14)
TOPIC_ID = bytes(range(16))


def topic_key(version: int) -> str | bytes:
    return TOPIC_ID if version >= 13 else "shop.orders"


def request(version: int, batches: list[bytes | None], transactional_id: str | None = None) -> bytes:
    return request_writer(ApiKey.PRODUCE, version)(
        {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout_ms": 1500,
            "topic_data": [
                {
                    "name": "shop.orders",
                    "topic_id": TOPIC_ID,
                    "partition_data": [
                        {"index": index, "records": batch} for index, batch in enumerate(batches)
                    ],
                }
            ],
        }
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_every_version_is_read(version):
    body = request(version, [b"first", None, b"x" * 300], transactional_id="tx")

    read = read_produce(memoryview(bytearray(body)), 0, version)

    assert read.acks == -1
    assert read.timeout_ms == 1500
    assert read.transactional_id == "tx"
    assert [topic.topic for topic in read.topics] == [topic_key(version)]
    partitions = [(index, None if data is None else bytes(data)) for index, data in read.topics[0].partitions]
    assert partitions == [(0, b"first"), (1, None), (2, b"x" * 300)]


def test_records_are_a_view_of_the_receive_buffer_and_not_a_copy():
    store = bytearray(request(9, [b"batch"]))

    records = read_produce(memoryview(store), 0, 9).topics[0].partitions[0][1]
    assert records is not None
    records[0:1] = b"B"

    assert b"Batch" in store


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_refused(version):
    body = request(version, [b"first", b"second"])

    refused = 0
    for end in range(len(body)):
        with pytest.raises(MalformedRequest):
            read_produce(memoryview(body[:end]), 0, version)
        refused += 1

    assert refused == len(body)


@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_arbitrary_bytes_are_a_request_or_malformed_and_nothing_else(version, data):
    try:
        read = read_produce(memoryview(data), 0, version)
    except MalformedRequest:
        return
    assert isinstance(read.topics, list)


@given(st.sampled_from(VERSIONS), st.data())
def test_a_changed_byte_gives_a_request_or_malformed_and_nothing_else(version, data):
    body = bytearray(request(version, [b"first", b"second"]))
    position = data.draw(st.integers(0, len(body) - 1))
    body[position] = data.draw(st.integers(0, 255))
    try:
        read = read_produce(memoryview(body), 0, version)
    except MalformedRequest:
        return
    assert isinstance(read.topics, list)


def test_bytes_behind_the_request_are_ignored_as_kafka_does():
    read = read_produce(memoryview(request(9, [b"first"]) + b"\0"), 0, 9)

    assert len(read.topics) == 1


def test_a_count_larger_than_the_bytes_that_remain_is_refused_before_anything_is_made():
    body = bytearray(request(8, [b"first"]))
    body[8:12] = (50_000).to_bytes(4, "big")

    with pytest.raises(MalformedRequest, match="announced"):
        read_produce(memoryview(body), 0, 8)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_of_every_version_is_what_the_schema_says(version):
    results = [
        PartitionResult(0, 0, 77, 1234, 5),
        PartitionResult(1, 10, message="too large", record_index=4),
    ]

    frame = write_produce_response(version, 42, [(topic_key(version), results)])

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, position = parse_response_header(frame[4:], ApiKey.PRODUCE, version)
    assert correlation_id == 42
    read = response_reader(ApiKey.PRODUCE, version)(frame[4:], position)
    topic = read.responses[0]
    assert (topic.topic_id if version >= 13 else topic.name) == topic_key(version)
    first, second = topic.partition_responses
    assert (first.index, first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, 77, 1234)
    assert (second.index, second.error_code) == (1, 10)
    assert first.log_start_offset == (5 if version >= 5 else -1)
    assert second.error_message == ("too large" if version >= 8 else None)
    assert [error.batch_index for error in second.record_errors] == ([4] if version >= 8 else [])


def with_records(version: int, partition: int, records: bytes) -> bytes:
    return request_writer(ApiKey.PRODUCE, version)(
        {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 1500,
            "topic_data": [
                {
                    "name": "shop.orders",
                    "topic_id": TOPIC_ID,
                    "partition_data": [{"index": partition, "records": records}],
                }
            ],
        }
    )


def shape_of(version: int, records: bytes = b"first") -> ProduceShape | None:
    view = memoryview(bytearray(b"head" + with_records(version, 3, records)))
    return ProduceShape.of(view, 4, version, read_produce(view, 4, version))


@given(st.integers(9, 13), st.integers(0, 2**31 - 1), st.binary(max_size=20_000))
def test_a_shape_reads_the_next_request_as_the_general_way_does(version, partition, records):
    shape = shape_of(version)
    view = memoryview(bytearray(b"a longer head" + with_records(version, partition, records)))

    found = shape.read(view, 13)

    read = read_produce(view, 13, version)
    assert found is not None
    assert found == read.topics[0].partitions[0]
    assert (shape.acks, shape.topic) == (read.acks, read.topics[0].topic)


@pytest.mark.parametrize("version", range(3, 9))
def test_only_flexible_versions_have_a_shape(version):
    assert shape_of(version) is None


@pytest.mark.parametrize("version", range(9, 14))
def test_a_request_for_two_partitions_has_no_shape_and_fits_none(version):
    view = memoryview(bytearray(request(version, [b"first", b"second"])))

    assert ProduceShape.of(view, 0, version, read_produce(view, 0, version)) is None
    assert shape_of(version).read(view, 0) is None


@given(st.integers(9, 13), st.data())
def test_a_shape_never_reads_what_the_general_way_would_not(version, data):
    body = bytearray(with_records(version, 1, b"some records"))
    position = data.draw(st.integers(0, len(body) - 1))
    body[position] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]

    found = shape_of(version).read(memoryview(body), 0)

    if found is not None:
        read = read_produce(memoryview(body), 0, version)
        assert [topic.topic for topic in read.topics] == [topic_key(version)]
        assert read.topics[0].partitions == [found]


@given(
    st.integers(9, 13),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(-1, 2**62),
    st.integers(-1, 2**62),
)
def test_a_shape_writes_the_answer_that_the_general_way_does(version, correlation_id, partition, base, start):
    made = shape_of(version).write(correlation_id, partition, base, -1, start)

    result = PartitionResult(partition, 0, base, -1, start)
    assert made == write_produce_response(version, correlation_id, [(topic_key(version), [result])])
