"""Record batches, made by hand.

Why: the proof needs batches that are wrong on purpose, and must not be made by the codec under test.
Invariants: `Batch.encode` writes exactly what its fields say, right or wrong; only `crc` is computed, unless
it is given. `decode` reads what `encode` writes, and every compression.
"""

import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import cramjam
import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LOG_APPEND_TIME = 0x08

_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = _HEADER.size
_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def now_ms() -> int:
    """Retention goes by record timestamps: one of long ago would vanish in the middle of a test."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record inside a batch; `offset_delta` None means its place in the batch."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0
    offset_delta: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch to send. Every field that a broker checks can be set to something wrong."""

    items: Sequence[Item] = (Item(value=b"value"),)
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    compression: int = NONE
    attributes: int = 0
    last_offset_delta: int | None = None
    base_timestamp: int = field(default_factory=now_ms)
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int | None = None

    def encode(self) -> bytes:
        payload = _compressed(self.compression, b"".join(_records(self.items)))
        newest = self.base_timestamp + max((item.timestamp_delta for item in self.items), default=0)
        packed = bytearray(
            _HEADER.pack(
                self.base_offset,
                HEADER_SIZE - 12 + len(payload),
                self.leader_epoch,
                self.magic,
                0,
                self.attributes | self.compression,
                len(self.items) - 1 if self.last_offset_delta is None else self.last_offset_delta,
                self.base_timestamp,
                newest if self.max_timestamp is None else self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                len(self.items) if self.record_count is None else self.record_count,
            )
        )
        packed += payload
        crc = crc32c.crc32c(bytes(packed[21:])) if self.crc is None else self.crc
        struct.pack_into(">I", packed, 17, crc)
        return bytes(packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch as a broker returned it."""

    base_offset: int
    size: int
    leader_epoch: int
    crc_holds: bool
    compression: int
    is_log_append_time: bool
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    items: tuple[Item, ...]

    @property
    def offsets(self) -> list[int]:
        return [self.base_offset + (item.offset_delta or 0) for item in self.items]


def values_batch(*values: bytes, **fields: int) -> bytes:
    """A good batch with these values."""
    return Batch(items=[Item(value=value) for value in values], **fields).encode()


def decode(data: bytes | None) -> list[StoredBatch]:
    """The whole batches at the start of `data`; a partial one at the end is left out."""
    batches = []
    data = data or b""
    position = 0
    while position + HEADER_SIZE <= len(data):
        size = struct.unpack_from(">i", data, position + 8)[0] + 12
        if position + size > len(data):
            break
        batches.append(_stored(data[position : position + size]))
        position += size
    return batches


def _stored(data: bytes) -> StoredBatch:
    (base_offset, _length, epoch, magic, crc, attributes, last_delta, base_timestamp) = _HEADER.unpack_from(
        data
    )[:8]
    max_timestamp, producer_id, _producer_epoch, _sequence, count = _HEADER.unpack_from(data)[8:]
    assert magic == 2, f"magic {magic}"
    payload = _decompressed(attributes & 7, data[HEADER_SIZE:])
    return StoredBatch(
        base_offset=base_offset,
        size=len(data),
        leader_epoch=epoch,
        crc_holds=crc32c.crc32c(data[21:]) == crc,
        compression=attributes & 7,
        is_log_append_time=bool(attributes & LOG_APPEND_TIME),
        last_offset=base_offset + last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        items=tuple(_items(payload, count)),
    )


def _records(items: Sequence[Item]) -> Iterable[bytes]:
    for place, item in enumerate(items):
        delta = place if item.offset_delta is None else item.offset_delta
        body = bytearray(b"\x00")
        body += _varint(item.timestamp_delta) + _varint(delta)
        body += _sized(item.key) + _sized(item.value) + _varint(len(item.headers))
        for name, value in item.headers:
            body += _sized(name.encode()) + _sized(value)
        yield _varint(len(body)) + bytes(body)


def _items(payload: bytes, count: int) -> Iterable[Item]:
    position = 0
    for _ in range(count):
        _length, position = _read_varint(payload, position)
        timestamp_delta, position = _read_varint(payload, position + 1)
        offset_delta, position = _read_varint(payload, position)
        key, position = _read_sized(payload, position)
        value, position = _read_sized(payload, position)
        header_count, position = _read_varint(payload, position)
        headers = []
        for _ in range(header_count):
            name, position = _read_sized(payload, position)
            header, position = _read_sized(payload, position)
            headers.append(((name or b"").decode(), header))
        yield Item(
            key=key,
            value=value,
            headers=tuple(headers),
            timestamp_delta=timestamp_delta,
            offset_delta=offset_delta,
        )


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _read_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    written = bytearray()
    while zigzag > 0x7F:
        written.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    written.append(zigzag)
    return bytes(written)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    zigzag = shift = 0
    while True:
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7


def _compressed(kind: int, data: bytes) -> bytes:
    if kind == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if kind == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(data))
        return _XERIAL + struct.pack(">i", len(block)) + block
    if kind == LZ4:
        # One whole block: Java's reader refuses frames whose blocks depend on each other.
        compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    if kind == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    return data


def _decompressed(kind: int, data: bytes) -> bytes:
    if kind == GZIP:
        return bytes(cramjam.gzip.decompress(data))
    if kind == SNAPPY:
        return _snappy_decompressed(data)
    if kind == LZ4:
        return bytes(cramjam.lz4.decompress(data))
    if kind == ZSTD:
        return bytes(cramjam.zstd.decompress(data))
    return data


def _snappy_decompressed(data: bytes) -> bytes:
    if not data.startswith(_XERIAL[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    position = len(_XERIAL)
    plain = bytearray()
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        plain += bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size]))
        position += 4 + size
    return bytes(plain)
