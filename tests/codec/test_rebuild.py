import pytest

from millstream.codec.batch import HEADER_SIZE, crc_is_valid, read_header
from millstream.codec.compression import Compression
from millstream.codec.errors import CorruptBatch, DecompressedTooLarge
from millstream.codec.rebuild import rebuild
from millstream.codec.records import Record, decode_records, encode_batch

RECORDS = [
    Record(number, 1_000 + number, b"key-%d" % number, b"value " * 50, (("h", b"x"),)) for number in range(20)
]


def made_with(compression):
    return encode_batch(
        RECORDS,
        compression=compression,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        is_transactional=True,
        leader_epoch=4,
    )


@pytest.mark.parametrize("before", list(Compression))
@pytest.mark.parametrize("after", list(Compression))
def test_only_the_compression_changes(before, after):
    batch = made_with(before)
    header = read_header(batch)

    rebuilt = rebuild(batch, header, compression=after)

    changed = read_header(rebuilt)
    assert changed.compression == after
    assert changed.size == len(rebuilt)
    assert crc_is_valid(rebuilt, 0, len(rebuilt))
    assert decode_records(rebuilt) == RECORDS
    assert changed == header._replace(
        length=changed.length, crc=changed.crc, attributes=header.attributes & ~7 | after
    )


def test_the_result_is_what_would_have_been_encoded_at_once():
    batch = made_with(Compression.GZIP)

    assert rebuild(batch, read_header(batch), compression=Compression.NONE) == made_with(Compression.NONE)


def test_append_time_is_set_in_the_same_pass():
    batch = made_with(Compression.NONE)

    rebuilt = rebuild(batch, read_header(batch), compression=Compression.ZSTD, append_time_ms=77_000)

    assert {record.timestamp_ms for record in decode_records(rebuilt)} == {77_000}
    assert crc_is_valid(rebuilt, 0, len(rebuilt))


def test_the_level_is_passed_on():
    batch = made_with(Compression.NONE)
    header = read_header(batch)

    fast = rebuild(batch, header, compression=Compression.ZSTD, level=-100)
    thorough = rebuild(batch, header, compression=Compression.ZSTD, level=19)

    assert len(thorough) < len(fast)
    assert decode_records(thorough) == decode_records(fast)


def test_a_payload_beyond_the_bound_is_refused():
    batch = made_with(Compression.GZIP)

    with pytest.raises(DecompressedTooLarge):
        rebuild(batch, read_header(batch), compression=Compression.NONE, size_max=100)


def test_a_payload_that_cannot_be_decompressed_is_corrupt():
    batch = made_with(Compression.GZIP)
    batch[HEADER_SIZE] ^= 0xFF

    with pytest.raises(CorruptBatch):
        rebuild(batch, read_header(batch), compression=Compression.NONE)
