import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.codec.batch import (
    HEADER_SIZE,
    assign,
    crc_is_valid,
    iter_headers,
    read_header,
    set_append_time,
    write_header,
)
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import Record, decode_records, encode_batch

RECORDS = [Record(0, 1_000, b"a", b"one"), Record(1, 3_000, b"b", b"two"), Record(2, 2_000, None, None)]


@pytest.fixture
def batch():
    return encode_batch(RECORDS, producer_id=7, producer_epoch=2, base_sequence=40, leader_epoch=3)


def test_a_header_gives_every_field_as_stored(batch):
    header = read_header(batch)

    assert header[:4] == (0, len(batch) - 12, 3, 2)
    assert header[5:] == (0, 2, 1_000, 3_000, 7, 2, 40, 3)


def test_sizes_and_offsets_follow_from_the_header(batch):
    assign(batch, 0, base_offset=500, leader_epoch=3)

    header = read_header(batch)

    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 502, 503)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0b0000000, (0, False, False, False, None)),
        (0b0000100, (4, False, False, False, None)),
        (0b0001001, (1, True, False, False, None)),
        (0b0010000, (0, False, True, False, None)),
        (0b0110000, (0, False, True, True, None)),
        (0b1000000, (0, False, False, False, 1_000)),
    ],
)
def test_attributes_are_taken_apart(batch, attributes, expected):
    header = read_header(batch)._replace(attributes=attributes)

    parts = (
        header.compression,
        header.is_log_append_time,
        header.is_transactional,
        header.is_control,
        header.delete_horizon_ms,
    )

    assert parts == expected


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(0, 0, 0), (40, 2, 42), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (-1, 2, -1)],
)
def test_the_last_sequence_starts_again_after_the_largest(
    batch, base_sequence, last_offset_delta, last_sequence
):
    header = read_header(batch)._replace(base_sequence=base_sequence, last_offset_delta=last_offset_delta)

    assert header.last_sequence == last_sequence


def test_a_header_is_read_at_any_position_of_any_kind_of_buffer(batch):
    padded = b"xyz" + batch

    assert read_header(memoryview(padded), 3) == read_header(batch)


@pytest.mark.parametrize("size", range(HEADER_SIZE))
def test_a_cut_header_is_corrupt(batch, size):
    with pytest.raises(CorruptBatch):
        read_header(batch[:size])


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_that_has_no_room_for_a_header_is_corrupt(batch, length):
    struct.pack_into(">i", batch, 8, length)

    with pytest.raises(CorruptBatch, match=f"length {length}"):
        read_header(batch)


@given(st.binary(min_size=HEADER_SIZE, max_size=HEADER_SIZE + 5))
def test_arbitrary_bytes_give_a_header_or_corrupt_batch(data):
    try:
        header = read_header(data)
    except CorruptBatch:
        return

    written = bytearray(HEADER_SIZE)
    write_header(written, 0, header)
    assert written == data[:HEADER_SIZE]


def test_assigning_offset_and_epoch_keeps_the_checksum_valid(batch):
    assign(batch, 0, base_offset=2**40, leader_epoch=9)

    assert read_header(batch).base_offset == 2**40
    assert read_header(batch).leader_epoch == 9
    assert crc_is_valid(batch, 0, len(batch))


def test_every_flipped_bit_that_the_checksum_covers_is_noticed(batch):
    noticed = []
    for bit in range(17 * 8, len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        noticed.append(not crc_is_valid(damaged, 0, len(batch)))

    assert all(noticed)


@pytest.mark.parametrize("size", [0, HEADER_SIZE - 1, 10**9])
def test_a_size_that_the_buffer_cannot_hold_has_no_valid_checksum(batch, size):
    assert not crc_is_valid(batch, 0, size)


def test_append_time_becomes_the_time_of_every_record(batch):
    set_append_time(batch, 0, len(batch), 9_000)

    assert [record.timestamp_ms for record in decode_records(batch)] == [9_000, 9_000, 9_000]
    assert read_header(batch).base_timestamp == 1_000
    assert crc_is_valid(batch, 0, len(batch))


def test_append_time_is_set_inside_a_larger_buffer():
    first, second = encode_batch(RECORDS), encode_batch(RECORDS)
    both = first + second

    set_append_time(both, len(first), len(second), 9_000)

    assert both[: len(first)] == first
    assert crc_is_valid(both, len(first), len(second))


def test_headers_are_found_one_behind_the_other(batch):
    three = batch * 3

    found = list(iter_headers(three, 0, len(three)))

    assert [position for position, _ in found] == [0, len(batch), 2 * len(batch)]
    assert {header for _, header in found} == {read_header(batch)}


def test_walking_headers_stops_at_every_partial_batch(batch):
    counts = {len(list(iter_headers(batch + batch[:cut], 0, 10**6))) for cut in range(len(batch))}

    assert counts == {1}


def test_walking_headers_respects_the_end(batch):
    assert list(iter_headers(batch * 2, 0, len(batch) * 2 - 1)) == [(0, read_header(batch))]


def test_walking_headers_raises_where_the_next_one_cannot_be_found(batch):
    headers = iter_headers(batch + bytes(100), 0, len(batch) + 100)

    assert next(headers)[0] == 0
    with pytest.raises(CorruptBatch):
        next(headers)
