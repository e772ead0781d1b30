import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.codec import scan
from millstream.codec.batch import HEADER_SIZE, crc_is_valid, read_header
from millstream.codec.compression import Compression
from millstream.codec.errors import CorruptBatch, DecompressedTooLarge, InvalidRecord
from millstream.codec.records import (
    ControlKind,
    Record,
    control_batch,
    decode_records,
    encode_batch,
    validate_records,
)
from tests.codec.strategies import contiguous_records, sparse_records

RECORDS = [
    Record(0, 1_000, b"a", b"one", (("trace", b"1"), ("empty", None))),
    Record(1, 3_000, b"b", None),
    Record(2, 2_000, b"", b""),
]


@pytest.fixture(scope="module", params=["compiled", "python"], autouse=True)
def twin(request):
    """Everything here holds with the accelerator and without it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(scan, "_accelerator", None)
        elif not scan.IS_ACCELERATED:
            pytest.skip("the accelerator was not built")
        yield


def validate(batch, *, need_keys=False):
    validate_records(batch, read_header(batch), need_keys=need_keys)


@pytest.mark.parametrize("compression", list(Compression))
@given(records=contiguous_records)
def test_records_survive_a_round_trip(compression, records):
    batch = encode_batch(records, compression=compression)

    assert decode_records(batch) == records
    assert crc_is_valid(batch, 0, len(batch))


@given(records=sparse_records, beyond=st.integers(0, 5))
def test_gaps_between_offsets_survive_a_round_trip(records, beyond):
    last_offset = (records[-1].offset if records else 1000) + beyond

    batch = encode_batch(records, base_offset=1000, last_offset=last_offset)

    assert decode_records(batch) == records
    assert read_header(batch).last_offset == last_offset


@given(records=contiguous_records)
def test_what_was_encoded_is_valid(records):
    validate(encode_batch(records))


def test_a_header_carries_what_the_batch_was_made_with():
    batch = encode_batch(
        RECORDS,
        compression=Compression.LZ4,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        is_transactional=True,
        leader_epoch=4,
    )

    header = read_header(batch)

    assert header.size == len(batch)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 3_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)
    assert (header.compression, header.is_transactional, header.is_control) == (3, True, False)
    assert header.leader_epoch == 4


def test_records_with_append_time_all_have_the_largest_timestamp():
    batch = encode_batch(RECORDS, log_append_time=True)

    assert {record.timestamp_ms for record in decode_records(batch)} == {3_000}


def test_a_batch_without_records_has_no_payload():
    batch = encode_batch([], base_offset=50, last_offset=59)

    assert len(batch) == HEADER_SIZE
    assert decode_records(batch) == []
    assert read_header(batch).next_offset == 60


def test_only_the_first_batch_of_the_buffer_is_decoded():
    assert decode_records(encode_batch(RECORDS) + b"what follows") == RECORDS


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 2**31), (-1, 0)])
def test_offsets_that_do_not_increase_are_not_encoded(offsets):
    records = [Record(offset, 0, b"k", b"v") for offset in offsets]

    with pytest.raises(InvalidRecord):
        encode_batch(records)


def test_a_last_offset_below_the_last_record_is_not_encoded():
    with pytest.raises(InvalidRecord):
        encode_batch(RECORDS, last_offset=1)


@pytest.mark.parametrize(("kind", "code"), [(ControlKind.ABORT, 0), (ControlKind.COMMIT, 1)])
def test_a_control_batch_ends_a_transaction(kind, code):
    batch = control_batch(
        kind, producer_id=5, producer_epoch=2, timestamp_ms=8_000, base_offset=33, coordinator_epoch=6
    )

    header = read_header(batch)
    [record] = decode_records(batch)

    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch) == (5, 2)
    assert record == Record(33, 8_000, struct.pack(">hh", 0, code), struct.pack(">hi", 0, 6))


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_cut_anywhere_is_corrupt(compression):
    batch = encode_batch(RECORDS, compression=compression)

    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            decode_records(batch[:size])


@pytest.mark.parametrize("compression", list(Compression))
def test_a_payload_cut_anywhere_behind_an_honest_header_is_corrupt(compression):
    batch = encode_batch(RECORDS, compression=compression)

    for size in range(HEADER_SIZE, len(batch)):
        cut = batch[:size]
        struct.pack_into(">i", cut, 8, size - 12)
        with pytest.raises(CorruptBatch):
            decode_records(cut)


@given(records=contiguous_records, data=st.data())
def test_a_damaged_batch_gives_records_or_a_known_error(records, data):
    batch = encode_batch(records)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))

    for action in (decode_records, validate):
        try:
            action(batch)
        except (CorruptBatch, InvalidRecord):
            continue


@given(payload=st.binary(max_size=200), count=st.integers(-1, 30), compression=st.integers(0, 7))
def test_arbitrary_payloads_give_records_or_a_known_error(payload, count, compression):
    header = read_header(encode_batch([]))._replace(
        length=HEADER_SIZE - 12 + len(payload),
        record_count=count,
        last_offset_delta=count - 1,
        attributes=compression,
    )
    batch = struct.pack(">qiibIhiqqqhii", *header) + payload

    for action in (decode_records, validate):
        try:
            action(batch)
        except (CorruptBatch, InvalidRecord):
            continue


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 2**31 - 1])
def test_a_count_other_than_that_of_the_records_is_corrupt(count):
    batch = encode_batch(RECORDS)
    struct.pack_into(">i", batch, 57, count)

    with pytest.raises(CorruptBatch):
        decode_records(batch)


def test_another_format_than_v2_is_corrupt():
    batch = encode_batch(RECORDS)
    batch[16] = 1

    with pytest.raises(CorruptBatch, match="magic"):
        decode_records(batch)


def test_records_that_decompress_beyond_the_bound_are_refused():
    batch = encode_batch([Record(0, 0, b"k", bytes(100_000))], compression=Compression.ZSTD)

    with pytest.raises(DecompressedTooLarge):
        decode_records(batch, size_max=99_999)


def with_payload(payload: bytes, *, count: int = 1, last_delta: int = 0) -> bytearray:
    """A batch around a hand-made payload."""
    header = read_header(encode_batch([]))._replace(
        length=HEADER_SIZE - 12 + len(payload), record_count=count, last_offset_delta=last_delta
    )
    return bytearray(struct.pack(">qiibIhiqqqhii", *header) + payload)


@pytest.mark.parametrize(
    "record",
    [
        "0e 00 00 00 03 01 00",  # key of -2 bytes, and one byte too many
        "0c 00 00 00 03 01 00",  # key of -2 bytes
        "0c 00 00 00 01 03 00",  # value of -2 bytes
        "0c 00 00 00 0a 01 00",  # key reaches beyond the batch
        "0c 00 00 00 01 0a 00",  # value reaches beyond the batch
        "0c 00 00 00 01 01 01",  # -1 headers
        "0c 00 00 00 01 01 06",  # three headers, no bytes for them
        "10 00 00 00 01 01 02 01 01",  # header without a name
        "10 00 00 00 01 01 02 00 03",  # header value of -2 bytes
        "0a 00 00 00 01 01 00",  # the record is longer than its length
        "0e 00 00 00 01 01 00 00",  # the record is shorter than its length
        "01 00 00 00 01 01 00",  # length -1
        "7e 00 00 00 01 01 00",  # length beyond the batch
        "0c 00 00 02 01 01 00",  # offset beyond the batch's last
        "0c 00 00 00 01 01 00 00",  # a byte behind the last record
        "0c 00 00 80 80 80 80 80",  # a varint that doesn't end
    ],
)
def test_a_record_whose_parts_do_not_fit_is_corrupt(record):
    with pytest.raises(CorruptBatch):
        decode_records(with_payload(bytes.fromhex(record)))


def test_the_smallest_record_is_read():
    assert decode_records(with_payload(bytes.fromhex("0c 00 00 00 01 01 00"))) == [Record(0, -1, None, None)]


def test_decoding_refuses_offsets_that_do_not_increase():
    twice = bytes.fromhex("0c 00 00 00 01 01 00") * 2

    with pytest.raises(CorruptBatch, match="increase"):
        decode_records(with_payload(twice, count=2, last_delta=1))


# ---------------------------------------------------------------- what a producer must not send


def test_a_batch_without_records_is_invalid():
    with pytest.raises(InvalidRecord, match="no records"):
        validate(encode_batch([]))


def test_a_gap_between_offsets_is_invalid():
    records = [Record(0, 0, b"k", b"v"), Record(2, 0, b"k", b"v")]

    with pytest.raises(InvalidRecord):
        validate(encode_batch(records))


def test_an_offset_other_than_the_records_place_is_invalid():
    swapped = bytes.fromhex("0c 00 00 02 01 01 00 0c 00 00 00 01 01 00")

    with pytest.raises(InvalidRecord) as raised:
        validate(with_payload(swapped, count=2, last_delta=1))

    assert raised.value.index == 0


def test_a_record_without_a_key_is_invalid_only_where_keys_are_needed():
    batch = encode_batch([Record(0, 0, b"", b"v"), Record(1, 0, None, b"v")])

    validate(batch, need_keys=False)
    with pytest.raises(InvalidRecord) as raised:
        validate(batch, need_keys=True)

    assert raised.value.index == 1


@pytest.mark.parametrize("compression", list(Compression))
def test_validation_sees_through_every_compression(compression):
    batch = encode_batch([Record(0, 0, None, b"v" * 1000)], compression=compression)

    validate(batch, need_keys=False)
    with pytest.raises(InvalidRecord):
        validate(batch, need_keys=True)
