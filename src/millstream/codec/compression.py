"""Compression of record payloads, in every dialect that Kafka clients write.

Why: one and the same code in a header means different bytes from different clients. Snappy comes as blocks
in xerial's framing (Java, Python, Go) or as one bare block (librdkafka); LZ4 frames have independent
blocks (Java, librdkafka) or linked ones (others); gzip may have several members, zstd several frames, with
or without the size of their content.
Invariants: what we write, Java reads: xerial snappy, LZ4 frames with independent blocks. Reading never
produces more than `size_max` bytes, and memory grows with what was really produced, not with what a
payload claims: a bomb costs at most the bound.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct

import cramjam

from millstream.codec.batch import Buffer
from millstream.codec.errors import CorruptBatch, DecompressedTooLarge

DECOMPRESSED_SIZE_MAX = 128 * 1024 * 1024
"""Bound on one batch's payload where the caller knows no better. Clients bound batches before compressing."""


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`data` compressed; `level` as in Kafka's `compression.*.level`, None for Kafka's default."""
    return _COMPRESSORS[kind](data, level)


def decompress(kind: int, data: Buffer, *, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """What `data` was before. Raises CorruptBatch, or DecompressedTooLarge beyond `size_max` bytes."""
    if kind == Compression.NONE:
        if len(data) > size_max:
            raise DecompressedTooLarge("uncompressed", size_max=size_max)
        return bytes(data)
    if kind == Compression.SNAPPY:
        return _snappy_decompress(memoryview(data), size_max)
    into = _DECOMPRESSORS.get(kind)
    if into is None:
        raise CorruptBatch(f"compression code {kind} is not assigned")
    return _decompress_bounded(kind, into, memoryview(data), size_max)


# ---------------------------------------------------------------- writing

_GZIP_LEVEL_DEFAULT = 6
_ZSTD_LEVEL_DEFAULT = 3
_LZ4_LEVEL_FAST = 0
_LZ4_LEVEL_DEFAULT = 9


def _store(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _gzip_compress(data: Buffer, level: int | None) -> bytes:
    level = _GZIP_LEVEL_DEFAULT if level is None or level < 0 else level
    return bytes(cramjam.gzip.compress(data, level=level))


def _zstd_compress(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL_DEFAULT if level is None else level))


def _lz4_compress(data: Buffer, level: int | None) -> bytes:
    # Kafka's default level 9 stands for the fast compressor; any other asks for the thorough one.
    if level is None or level == _LZ4_LEVEL_DEFAULT:
        level = _LZ4_LEVEL_FAST
    # Not lz4.compress: it links the blocks, which Java's reader refuses.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # takes nothing else; free of cost for bytes
    return bytes(compressor.finish())


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE = 32 * 1024
_BLOCK_LENGTH = Struct(">I")


def _snappy_compress(data: Buffer, level: int | None) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Compression.NONE: _store,
    Compression.GZIP: _gzip_compress,
    Compression.SNAPPY: _snappy_compress,
    Compression.LZ4: _lz4_compress,
    Compression.ZSTD: _zstd_compress,
}

# ---------------------------------------------------------------- reading

_DECOMPRESSORS: dict[int, Callable[[Buffer, bytearray], int]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}

_CAPACITY_MIN = 4096
_CAPACITY_RATIO = 4
"""Event data mostly shrinks to between a half and a quarter: the first attempt mostly fits."""

_OUTPUT_FULL = "failed to write whole buffer"


def _decompress_bounded(
    kind: int, into: Callable[[Buffer, bytearray], int], data: memoryview, size_max: int
) -> bytes:
    """Decompress into a buffer that grows by attempts, so that its size follows the real output.

    The attempts grow by a factor: all the failed ones together cost less than the last.
    """
    capacity = min(size_max, max(_CAPACITY_MIN, len(data) * _CAPACITY_RATIO))
    while True:
        output = bytearray(capacity)
        try:
            size = into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_FULL:
                raise CorruptBatch(f"{Compression(kind).name.lower()} payload: {error}") from None
        else:
            return bytes(memoryview(output)[:size])
        if capacity >= size_max:
            raise DecompressedTooLarge(Compression(kind).name.lower(), size_max=size_max)
        capacity = min(size_max, capacity * _CAPACITY_RATIO)


_SNAPPY_RATIO_MAX = 22
"""A snappy block can't grow by more: its densest element makes 64 bytes of 3."""


def _snappy_decompress(data: memoryview, size_max: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(data, 0, size_max)
    parts: list[bytes] = []
    size = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if data[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)  # streams written one after the other
            continue
        if position + _BLOCK_LENGTH.size > len(data):
            raise CorruptBatch("snappy payload ends inside a block's length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length > len(data) - position:
            raise CorruptBatch(f"snappy block of {length} bytes, {len(data) - position} are left")
        block = _snappy_block(data[position : position + length], size, size_max)
        position += length
        size += len(block)
        parts.append(block)
    if position != len(data):
        raise CorruptBatch("snappy payload ends inside its header")
    return b"".join(parts)


def _snappy_block(block: memoryview, size_before: int, size_max: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise CorruptBatch(f"snappy block of {len(block)} bytes claims to hold {size}")
        if size_before + size > size_max:
            raise DecompressedTooLarge("snappy", size_max=size_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy payload: {error}") from None
