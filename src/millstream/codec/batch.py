"""The 61 bytes in front of every record batch (Kafka's format v2), read and patched in place.

Why: produce, fetch and recovery move whole batches; all they ever need of one is its header.

    0  base offset       i64   not covered by the CRC: the log assigns it
    8  length            i32   of what follows this field
   12  leader epoch      i32   not covered by the CRC: the log assigns it
   16  magic             i8    2
   17  CRC32C            u32   over all that follows it
   21  attributes        i16   0-2 compression, 3 log append time, 4 transactional, 5 control,
                               6 base timestamp is a delete horizon
   23  last offset delta i32
   27  base timestamp    i64
   35  max timestamp     i64
   43  producer id       i64
   51  producer epoch    i16
   53  base sequence     i32
   57  record count      i32
   61  records

Invariants: a header that was read has `size` >= HEADER_SIZE, so walking headers always moves forward.
Nothing here looks at the records, and nothing but `seal` and its two callers writes a checksum.
"""

from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from millstream.codec.errors import CorruptBatch

HEADER_SIZE = 61
MAGIC = 2
LENGTH_MIN = HEADER_SIZE - 12
"""The smallest value of the length field: a header without records."""

SIZE_OVERHEAD = 12
"""Bytes in front of what the length field counts."""

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

SEQUENCE_MODULUS = 2**31

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap
WritableBuffer: TypeAlias = bytearray | memoryview

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")

_EPOCH_AT = 12
_CRC_AT = 17
_CRC_FROM = 21
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35


class BatchHeader(NamedTuple):
    """A batch's header, field by field as stored."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header and all."""
        return self.length + SIZE_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The code of the compression; 5 to 7 are not assigned."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When this batch's tombstones may be dropped; None as long as they were never compacted."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, which starts again at 0 after 2^31 - 1; -1 without sequences."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULUS


_new = tuple.__new__
_unpack = _HEADER.unpack_from


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises CorruptBatch unless 61 bytes with a sane length are there.

    Whether the whole batch is in the buffer, its magic and its checksum are the caller's to check.
    """
    try:
        # Past NamedTuple's own __new__, which is Python and would double the cost of this hot function.
        header: BatchHeader = _new(BatchHeader, _unpack(buffer, position))
    except StructError:
        left = max(0, len(buffer) - position)
        raise CorruptBatch(f"{left} bytes left where a header takes {HEADER_SIZE}") from None
    if header[1] < LENGTH_MIN:
        raise CorruptBatch(f"length {header[1]} is below {LENGTH_MIN}", base_offset=header[0])
    return header


def write_header(buffer: WritableBuffer, position: int, header: BatchHeader) -> None:
    """Write every field as given, the CRC too; see `seal` to compute it."""
    _HEADER.pack_into(buffer, position, *header)


def crc_is_valid(buffer: Buffer, position: int, size: int) -> bool:
    """Whether the batch of `size` bytes at `position` is what its CRC was computed over."""
    if size < HEADER_SIZE or len(buffer) - position < size:
        return False
    stored: int = _CRC.unpack_from(buffer, position + _CRC_AT)[0]
    return crc32c(memoryview(buffer)[position + _CRC_FROM : position + size]) == stored


def seal(buffer: WritableBuffer, position: int, size: int) -> None:
    """Compute the CRC of the batch of `size` bytes and write it."""
    crc = crc32c(memoryview(buffer)[position + _CRC_FROM : position + size])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)


def assign(buffer: WritableBuffer, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place in the log. The CRC doesn't cover these fields and stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _EPOCH_AT, leader_epoch)


def set_append_time(buffer: WritableBuffer, position: int, size: int, now_ms: int) -> None:
    """Make `now_ms` the timestamp of every record in the batch, and compute its CRC again."""
    attributes: int = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_AT)[0]
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(buffer, position + _MAX_TIMESTAMP_AT, now_ms)
    seal(buffer, position, size)


def clear_append_time(buffer: WritableBuffer, position: int, size: int) -> None:
    """Make the records' own timestamps count again, and compute the CRC again."""
    attributes: int = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_AT)[0]
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME)
    seal(buffer, position, size)


def iter_headers(buffer: Buffer, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch in [start, end) as (position, header); stops where only a part of one is left.

    Raises CorruptBatch at a length that can't be: what follows it can't be found.
    """
    end = min(end, len(buffer))
    while end - start >= HEADER_SIZE:
        header = read_header(buffer, start)
        if header.length + SIZE_OVERHEAD > end - start:
            return
        yield start, header
        start += header.length + SIZE_OVERHEAD
