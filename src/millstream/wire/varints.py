"""Unsigned varints and tagged fields, where they are not inlined.

Why: compact lengths are nearly always one byte, which the callers read themselves; this is the rest.
Invariants: a varint has at most five bytes; nothing is skipped that lies beyond `end`.
"""

from millstream.wire.errors import MalformedRequest

Buffer = bytes | bytearray | memoryview


def read_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The value of a varint whose first byte was read and says that more follow; the position behind it."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedRequest("a length is a varint of more than five bytes")


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def skip_tags(buffer: Buffer, position: int, count: int, end: int) -> int:
    """The position behind tagged fields of which none is known; `count` is the byte before them."""
    if count > 127:
        count, position = read_uvarint(buffer, position, count)
    if count * 2 > end - position:
        raise MalformedRequest(f"{count} tagged fields are announced in {end - position} bytes")
    for _ in range(count):
        _, position = _uvarint(buffer, position)
        size, position = _uvarint(buffer, position)
        if size > end - position:
            raise MalformedRequest(f"a tagged field of {size} bytes has {end - position} left")
        position += size
    return position


def _uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else read_uvarint(buffer, position + 1, first)
