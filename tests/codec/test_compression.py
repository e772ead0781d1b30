import gzip
import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.codec.compression import Compression, compress, decompress
from millstream.codec.errors import CorruptBatch, DecompressedTooLarge

COMPRESSED_KINDS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(
    b'{"order":%d,"customer":"c-%d"}' % (number * 7919 % 10007, number % 97) for number in range(5000)
)


@pytest.mark.parametrize("kind", list(Compression))
@given(data=st.binary(max_size=2000))
def test_what_goes_in_comes_out(kind, data):
    assert decompress(kind, compress(kind, data)) == data


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_more_than_one_block_of_any_kind_of_buffer_comes_out(kind, wrap):
    assert decompress(kind, wrap(compress(kind, wrap(TEXT)))) == TEXT


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [(Compression.GZIP, 1, 9), (Compression.LZ4, 1, 12), (Compression.ZSTD, -5, 19)],
)
def test_a_higher_level_compresses_more(kind, low, high):
    weak, strong = compress(kind, TEXT, low), compress(kind, TEXT, high)

    assert len(strong) < len(weak)
    assert decompress(kind, strong) == decompress(kind, weak) == TEXT


@pytest.mark.parametrize(
    ("kind", "default"), [(Compression.GZIP, -1), (Compression.LZ4, 9), (Compression.ZSTD, 3)]
)
def test_no_level_is_the_default_of_the_topic_setting(kind, default):
    assert compress(kind, TEXT) == compress(kind, TEXT, default)


def test_snappy_is_written_in_the_framing_that_java_reads():
    framed = compress(Compression.SNAPPY, TEXT)

    first_length = struct.unpack_from(">I", framed, 16)[0]
    first_block = framed[20 : 20 + first_length]
    assert framed[:16] == b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1)
    assert bytes(cramjam.snappy.decompress_raw(first_block)) == TEXT[: 32 * 1024]


def test_lz4_is_written_with_independent_blocks():
    frame = compress(Compression.LZ4, TEXT)

    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20


def test_a_bare_snappy_block_is_read():
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_framed_snappy_streams_one_behind_the_other_are_read():
    framed = compress(Compression.SNAPPY, b"first") + compress(Compression.SNAPPY, b"second")

    assert decompress(Compression.SNAPPY, framed) == b"firstsecond"


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_frames_of_every_make_are_read(linked, checksum):
    compressor = cramjam.lz4.Compressor(level=0, content_checksum=checksum, block_linked=linked)
    compressor.compress(TEXT)

    assert decompress(Compression.LZ4, bytes(compressor.finish())) == TEXT


def test_gzip_with_several_members_is_read():
    assert (
        decompress(Compression.GZIP, gzip.compress(b"first ") + gzip.compress(b"second")) == b"first second"
    )


def test_zstd_without_content_size_and_in_several_frames_is_read():
    compressor = cramjam.zstd.Compressor(level=3)
    compressor.compress(TEXT)
    streamed = bytes(compressor.finish())

    assert streamed[4] >> 6 == 0  # no content size field
    assert not streamed[4] & 0x20
    assert decompress(Compression.ZSTD, streamed + streamed) == TEXT + TEXT


@pytest.mark.parametrize("kind", list(Compression))
def test_output_of_exactly_the_bound_is_given(kind):
    assert decompress(kind, compress(kind, TEXT), size_max=len(TEXT)) == TEXT


@pytest.mark.parametrize("kind", list(Compression))
@pytest.mark.parametrize("size_max", [0, 1, 4095, 4096, 4097, 40_000, len(TEXT) - 1])
def test_output_beyond_the_bound_is_refused(kind, size_max):
    with pytest.raises(DecompressedTooLarge) as raised:
        decompress(kind, compress(kind, TEXT), size_max=size_max)

    assert raised.value.size_max == size_max


def test_a_bare_snappy_block_beyond_the_bound_is_refused():
    with pytest.raises(DecompressedTooLarge):
        decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), size_max=len(TEXT) - 1)


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_corrupt():
    four_gigabytes = b"\xff\xff\xff\xff\x0f" + b"\x00x"

    with pytest.raises(CorruptBatch, match="claims"):
        decompress(Compression.SNAPPY, four_gigabytes, size_max=2**40)


@pytest.mark.parametrize("kind", COMPRESSED_KINDS)
def test_memory_follows_the_output_and_not_the_bound(kind):
    data = compress(kind, bytes(100_000))
    tracemalloc.start()

    decompress(kind, data, size_max=2**40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2_000_000


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_costs_no_more_than_the_bound(kind):
    bomb = compress(kind, bytes(30_000_000))
    tracemalloc.start()

    with pytest.raises(DecompressedTooLarge):
        decompress(kind, bomb, size_max=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2_500_000


@pytest.mark.parametrize("kind", COMPRESSED_KINDS)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_give_a_value_or_corrupt_batch(kind, data):
    try:
        output = decompress(kind, data, size_max=10_000)
    except CorruptBatch:
        return

    assert len(output) <= 10_000


@pytest.mark.parametrize("kind", COMPRESSED_KINDS)
@given(data=st.data())
def test_damaged_payloads_give_a_value_or_corrupt_batch(kind, data):
    damaged = bytearray(compress(kind, TEXT[:3000]))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    try:
        output = decompress(kind, damaged, size_max=10_000)
    except CorruptBatch:
        return

    assert len(output) <= 10_000


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_every_cut_of_a_payload_is_corrupt(kind):
    whole = compress(kind, TEXT[:500])

    for size in range(len(whole)):
        with pytest.raises(CorruptBatch):
            decompress(kind, whole[:size])


def test_a_cut_of_framed_snappy_gives_whole_blocks_or_is_corrupt():
    whole = compress(Compression.SNAPPY, TEXT[:40_000])
    outputs = set()

    for size in range(len(whole)):
        try:
            outputs.add(decompress(Compression.SNAPPY, whole[:size]))
        except CorruptBatch:
            continue

    assert outputs == {b"", TEXT[: 32 * 1024]}


@pytest.mark.parametrize("code", [5, 6, 7])
def test_a_code_that_is_not_assigned_is_corrupt(code):
    with pytest.raises(CorruptBatch, match="not assigned"):
        decompress(code, b"x")
