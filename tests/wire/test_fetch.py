"""The hand-made Fetch answer against the general codec, which is itself held to kio."""

import pytest

from millstream.wire.apis import ApiKey
from millstream.wire.fetch import FetchedPartition, write_fetch_response
from millstream.wire.frames import parse_response_header
from millstream.wire.schema import response_reader

VERSIONS = range(4, 19)
TOPIC_ID = bytes(range(16))


def key(version: int) -> str | bytes:
    return TOPIC_ID if version >= 13 else "shop.orders"


def read(version: int, buffers: list) -> object:
    frame = b"".join(bytes(buffer) for buffer in buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, position = parse_response_header(frame[4:], ApiKey.FETCH, version)
    assert correlation_id == 9
    return response_reader(ApiKey.FETCH, version)(frame[4:], position)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_of_every_version_is_what_the_schema_says(version):
    partitions = [
        FetchedPartition(0, 0, 100, 90, 5, None, [memoryview(b"abc"), b"def"], 6),
        FetchedPartition(1, 1, 7, 7, 7),
        FetchedPartition(2, 0, 3, 3, 0, [(11, 2)], [b"x" * 300], 300),
    ]

    buffers = write_fetch_response(
        version, 9, error_code=0, session_id=77, topics=[(key(version), partitions)]
    )

    answer = read(version, buffers)
    assert answer.session_id == (77 if version >= 7 else 0)
    topic = answer.responses[0]
    assert (topic.topic_id if version >= 13 else topic.topic) == key(version)
    first, second, third = topic.partitions
    assert (first.partition_index, first.high_watermark, first.last_stable_offset) == (0, 100, 90)
    assert bytes(first.records) == b"abcdef"
    assert first.aborted_transactions is None
    assert (second.partition_index, second.error_code, bytes(second.records)) == (1, 1, b"")
    assert [(a.producer_id, a.first_offset) for a in third.aborted_transactions] == [(11, 2)]
    assert bytes(third.records) == b"x" * 300


def test_records_are_passed_on_without_a_copy():
    records = memoryview(bytearray(100_000))

    buffers = write_fetch_response(
        16,
        9,
        error_code=0,
        session_id=0,
        topics=[(TOPIC_ID, [FetchedPartition(0, 0, 1, 1, 0, None, [records], 100_000)])],
    )

    assert any(buffer is records for buffer in buffers)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_for_the_whole_request_has_no_topics(version):
    answer = read(version, write_fetch_response(version, 9, error_code=70, session_id=0, topics=()))

    assert list(answer.responses) == []
    assert answer.error_code == (70 if version >= 7 else 0)


@pytest.mark.parametrize("version", range(12, 19))
def test_a_diverging_epoch_is_told_in_its_tag(version):
    partition = FetchedPartition(0, 0, 10, 10, 0, None, diverging=(3, 55))

    answer = read(
        version,
        write_fetch_response(version, 9, error_code=0, session_id=0, topics=[(key(version), [partition])]),
    )

    diverging = answer.responses[0].partitions[0].diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (3, 55)
