"""The records inside a batch: decoded, encoded, and checked without being decoded.

Why: internal topics, timestamp lookups and compaction need single records; produce only needs to know
that they are sound.

    length varint | attributes i8 | timestamp delta varlong | offset delta varint
    | key length varint (-1: null), key | value length varint (-1: null), value
    | header count varint, each: key length varint, key, value length varint (-1: null), value

Invariants: offsets within a batch strictly increase and may have gaps (compaction leaves them). Decoding
gives all of a batch's records or raises CorruptBatch; it never gives some of them, and never reads
outside the record a field belongs to. Header keys that are not UTF-8 survive a round trip.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from millstream.codec.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    read_header,
    seal,
    write_header,
)
from millstream.codec.compression import DECOMPRESSED_SIZE_MAX, Compression, compress, decompress
from millstream.codec.errors import CorruptBatch, InvalidRecord
from millstream.codec.scan import RecordSpan, are_records, scan_records
from millstream.codec.varint import read_varint, write_varint

RECORD_SIZE_MIN = 7
"""Length, attributes, two deltas, two null lengths and the header count, of one byte each."""

NO_TIMESTAMP = -1
_DELTA_MAX = 2**31 - 1

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class ControlKind(IntEnum):
    """How a transaction ended, as its marker says."""

    ABORT = 0
    COMMIT = 1


def read_payload(batch: Buffer, header: BatchHeader, *, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """The batch's records, decompressed. Raises CorruptBatch if it is cut or too small for its records."""
    return bytes(_payload(batch, header, size_max))


def _payload(batch: Buffer, header: BatchHeader, size_max: int) -> bytes | memoryview:
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic} is not {MAGIC}", base_offset=header.base_offset)
    if len(batch) < header.size:
        raise CorruptBatch(f"{len(batch)} of {header.size} bytes", base_offset=header.base_offset)
    payload: bytes | memoryview = memoryview(batch)[HEADER_SIZE : header.size]
    # A batch that compaction emptied has no payload at all, whatever its compression.
    if payload and header.attributes & COMPRESSION_MASK:
        payload = decompress(header.compression, payload, size_max=size_max)
    if not 0 <= header.record_count * RECORD_SIZE_MIN <= len(payload):
        raise CorruptBatch(
            f"{header.record_count} records in {len(payload)} bytes", base_offset=header.base_offset
        )
    return payload


def decode_records(batch: Buffer, *, size_max: int = DECOMPRESSED_SIZE_MAX) -> list[Record]:
    """All records of the batch that `batch` starts with. The CRC is the caller's to check."""
    header = read_header(batch)
    payload = read_payload(batch, header, size_max=size_max)
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    records: list[Record] = []
    delta_before = -1
    for _, end, timestamp_delta, offset_delta, key, value_start, value_end in spans_of(payload, header):
        if offset_delta <= delta_before:
            raise CorruptBatch("record offsets don't increase", base_offset=header.base_offset)
        delta_before = offset_delta
        value = payload[value_start:value_end] if value_end >= 0 else None
        headers_at = max(value_start, value_end)
        records.append(
            Record(
                header.base_offset + offset_delta,
                base_timestamp + timestamp_delta if append_time is None else append_time,
                key,
                value,
                () if headers_at + 1 == end else _decode_headers(payload, headers_at),
            )
        )
    if delta_before > header.last_offset_delta:
        raise CorruptBatch(
            f"a record lies beyond offset {header.last_offset}", base_offset=header.base_offset
        )
    return records


def spans_of(payload: bytes, header: BatchHeader) -> list[RecordSpan]:
    """Where the records of a decompressed payload are; see `scan_records`."""
    try:
        return scan_records(payload, header.record_count)
    except CorruptBatch as error:
        raise CorruptBatch(error.reason, base_offset=header.base_offset) from None


def _decode_headers(payload: bytes, position: int) -> Headers:
    """The headers at `position`, which a scan has already found to be sound."""
    count, position = read_varint(payload, position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(payload, position)
        name = payload[position : position + length].decode("utf-8", "surrogateescape")
        length, position = read_varint(payload, position + length)
        headers.append((name, payload[position : position + length] if length >= 0 else None))
        position += max(length, 0)
    return tuple(headers)


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = 0,
    log_append_time: bool = False,
) -> bytearray:
    """A batch that holds `records` at their offsets. Raises InvalidRecord if these don't increase.

    `last_offset` makes the batch reach further than its last record, as a compacted batch does.
    """
    attributes = int(compression)
    if log_append_time:
        attributes |= LOG_APPEND_TIME
    if is_transactional:
        attributes |= TRANSACTIONAL
    if is_control:
        attributes |= CONTROL
    base_timestamp = records[0].timestamp_ms if records else NO_TIMESTAMP
    max_timestamp = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
    payload = _encode_records(records, base_offset, base_timestamp)
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    last_delta = last_offset - base_offset
    if not 0 <= last_delta <= _DELTA_MAX or (records and records[-1].offset > last_offset):
        raise InvalidRecord(f"offsets {base_offset} to {last_offset} don't span the records")
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return wrap_payload(header, compress(compression, payload, level))


def wrap_payload(header: BatchHeader, payload: Buffer) -> bytearray:
    """A sealed batch of `payload`, compressed as the header says; its length and CRC are computed."""
    size = HEADER_SIZE + len(payload)
    batch = bytearray(size)
    write_header(batch, 0, header._replace(length=size - SIZE_OVERHEAD))
    batch[HEADER_SIZE:] = payload
    seal(batch, 0, size)
    return batch


_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


def control_batch(
    kind: ControlKind,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = 0,
    coordinator_epoch: int = 0,
) -> bytearray:
    """The marker that ends a producer's transaction in one partition."""
    key = _MARKER_KEY.pack(0, kind)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    return encode_batch(
        [Record(base_offset, timestamp_ms, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )


def _encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytearray:
    output = bytearray()
    body = bytearray()
    delta_before = -1
    for index, record in enumerate(records):
        delta = record.offset - base_offset
        if not delta_before < delta <= _DELTA_MAX:
            raise InvalidRecord(f"offset {record.offset} doesn't follow the one before", index=index)
        delta_before = delta
        body.clear()
        body.append(0)
        write_varint(body, record.timestamp_ms - base_timestamp)
        write_varint(body, delta)
        _write_bytes(body, record.key)
        _write_bytes(body, record.value)
        write_varint(body, len(record.headers))
        for name, value in record.headers:
            _write_bytes(body, name.encode("utf-8", "surrogateescape"))
            _write_bytes(body, value)
        write_varint(output, len(body))
        output += body
    return output


def _write_bytes(output: bytearray, field: bytes | None) -> None:
    if field is None:
        output.append(1)  # -1 in zigzag
        return
    write_varint(output, len(field))
    output += field


def validate_records(
    batch: Buffer, header: BatchHeader, *, need_keys: bool, size_max: int = DECOMPRESSED_SIZE_MAX
) -> None:
    """Raise CorruptBatch or InvalidRecord unless these are records as a producer must send them.

    As many as the header says, at offset deltas 0, 1, 2, …, nothing behind the last, each field within its
    record; with `need_keys`, none without a key.
    """
    if header.record_count <= 0:
        raise InvalidRecord("holds no records")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(f"{header.record_count} records but last offset delta {header.last_offset_delta}")
    payload = _payload(batch, header, size_max)
    if are_records(payload, header.record_count, need_keys=need_keys):
        return
    for index, span in enumerate(spans_of(bytes(payload), header)):
        if span[3] != index:
            raise InvalidRecord(f"has offset delta {span[3]}", index=index)
        if need_keys and span[4] is None:
            raise InvalidRecord("has no key, which a compacted topic needs", index=index)
