"""One walk over a payload's records that finds where their parts are, without making objects of them.

Why: checking what a producer sent, compaction and decoding all take the same steps over the same varints,
a million times a second if Python lets them; there is one loop to make fast and to get right.
The compiled twin (_accelerator.c) does it where it was built; what it refuses is walked again here, where an
error gets its words.
Invariants: a span lies inside the payload and each of its parts inside the span; spans follow each other
without a gap and the last ends where the payload ends. Anything else raises CorruptBatch. Both twins accept
the same payloads.
"""

from typing import TypeAlias

from millstream.codec.errors import CorruptBatch
from millstream.codec.varint import read_varint, read_varlong, write_varint

try:
    from millstream.codec import _accelerator
except ImportError:  # built only where there was a C compiler
    _accelerator = None  # type: ignore[assignment]

RecordSpan: TypeAlias = tuple[int, int, int, int, bytes | None, int, int]
"""start, end, timestamp delta, offset delta, key, start of the value, end of the value.

The value's end is -1 for a null value; its headers then begin where the value would have. A plain tuple
because making a named one takes as long as the whole rest of the walk.
"""


IS_ACCELERATED = _accelerator is not None


def scan_records(payload: bytes, count: int) -> list[RecordSpan]:
    """The spans of exactly `count` records that fill `payload`. Raises CorruptBatch otherwise."""
    if _accelerator is not None:
        found = _accelerator.scan_records(payload, count)
        if found is not None:
            return found
    return scan_records_in_python(payload, count)


def are_records(payload: bytes | memoryview, count: int, *, need_keys: bool) -> bool:
    """Whether `payload` is `count` records at offset deltas 0, 1, 2, …, with keys if needed.

    False where that takes Python to find out, too: `scan_records` then tells.
    """
    return _accelerator is not None and _accelerator.are_records(payload, count, need_keys)


def scan_records_in_python(payload: bytes, count: int) -> list[RecordSpan]:
    try:
        spans, position = _scan(payload, count)
    except IndexError:
        raise CorruptBatch("a record is cut") from None
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes behind the last record")
    return spans


_SMALL = tuple((byte >> 1) ^ -(byte & 1) if byte < 0x80 else None for byte in range(256))
"""The value of a one-byte varint; None where more bytes follow."""


def _scan(payload: bytes, count: int) -> tuple[list[RecordSpan], int]:
    # Varints of one byte are looked up in place, lengths of two as well: a call for each costs more than
    # all the rest.
    small = _SMALL
    spans: list[RecordSpan] = []
    position = 0
    size = len(payload)
    for _ in range(count):
        start = position
        length = small[payload[position]]
        position += 1
        if length is None:
            if (high := payload[position]) < 0x80:
                raw = payload[start] & 0x7F | high << 7
                length = (raw >> 1) ^ -(raw & 1)
                position += 1
            else:
                length, position = read_varint(payload, start)
        end = position + length
        if length < 0 or end > size:
            raise CorruptBatch(f"a record of {length} bytes in the last {size - position}")
        # The byte at `position` holds attributes, of which none is in use.
        timestamp_delta = small[payload[position + 1]]
        position += 2
        if timestamp_delta is None:
            timestamp_delta, position = read_varlong(payload, position - 1)
        offset_delta = small[payload[position]]
        position += 1
        if offset_delta is None:
            offset_delta, position = read_varint(payload, position - 1)
        length = small[payload[position]]
        position += 1
        if length is None:
            length, position = read_varint(payload, position - 1)
        if length < -1:
            raise CorruptBatch(f"a key of {length} bytes")
        key = payload[position : position + length] if length >= 0 else None
        value_start = position + length if length > 0 else position
        length = small[payload[value_start]]
        value_start += 1
        if length is None:
            if (high := payload[value_start]) < 0x80:
                raw = payload[value_start - 1] & 0x7F | high << 7
                length = (raw >> 1) ^ -(raw & 1)
                value_start += 1
            else:
                length, value_start = read_varint(payload, value_start - 1)
        if length < -1:
            raise CorruptBatch(f"a value of {length} bytes")
        value_end = value_start + length if length >= 0 else -1
        position = value_start if length < 0 else value_end
        # Nearly every record has no headers: a single zero byte.
        position = position + 1 if payload[position] == 0 else _skip_headers(payload, position, end)
        if position != end:
            raise CorruptBatch(f"the parts of a record end {position - end} bytes off its end")
        spans.append((start, end, timestamp_delta, offset_delta, key, value_start, value_end))
    return spans, position


def _skip_headers(payload: bytes, position: int, end: int) -> int:
    count, position = read_varint(payload, position)
    if not 0 <= count * 2 <= end - position:
        raise CorruptBatch(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        length, position = read_varint(payload, position)
        if length < 0:
            raise CorruptBatch("a header without a name")
        length, position = read_varint(payload, position + length)
        if length < -1:
            raise CorruptBatch(f"a header of {length} bytes")
        position += max(length, 0)
    return position


def shift_timestamps(payload: bytes, spans: list[RecordSpan], shift_ms: int) -> bytes:
    """The records at `spans`, with `shift_ms` added to each one's timestamp delta."""
    output = bytearray()
    body = bytearray()
    for start, end, timestamp_delta, _, _, _, _ in spans:
        _, attributes_at = read_varint(payload, start)
        _, rest_at = read_varlong(payload, attributes_at + 1)
        body.clear()
        body.append(payload[attributes_at])
        write_varint(body, timestamp_delta + shift_ms)
        body += payload[rest_at:end]
        write_varint(output, len(body))
        output += body
    return bytes(output)
