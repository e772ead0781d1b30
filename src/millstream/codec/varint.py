"""Zigzag variable-length integers, as the fields of a record are stored.

Why: record lengths, deltas and key sizes are mostly one or two bytes.
Invariants: a varint takes at most 5 bytes and fits 32 bits signed, a varlong at most 10 and 64. Reading
raises CorruptBatch for more and IndexError past the end: loops over many fields turn the latter into
CorruptBatch once, instead of comparing positions for each byte.
"""

from millstream.codec.errors import CorruptBatch

Indexable = bytes | bytearray | memoryview

_VARINT_SHIFT_MAX = 28
_VARLONG_SHIFT_MAX = 63


def read_varint(data: Indexable, position: int) -> tuple[int, int]:
    """The signed 32-bit value at `position`, and the position behind it."""
    raw, position = _read_raw(data, position, _VARINT_SHIFT_MAX)
    if raw >> 32:
        raise CorruptBatch("a varint is larger than 32 bits")
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: Indexable, position: int) -> tuple[int, int]:
    """The signed 64-bit value at `position`, and the position behind it."""
    raw, position = _read_raw(data, position, _VARLONG_SHIFT_MAX)
    if raw >> 64:
        raise CorruptBatch("a varlong is larger than 64 bits")
    return (raw >> 1) ^ -(raw & 1), position


def write_varint(output: bytearray, value: int) -> None:
    """Append `value`, of at most 64 bits signed; small values of either type look the same."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        output.append(raw & 0x7F | 0x80)
        raw >>= 7
    output.append(raw)


def _read_raw(data: Indexable, position: int, shift_max: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position
        shift += 7
        if shift > shift_max:
            raise CorruptBatch(f"a varint is longer than {shift_max // 7 + 1} bytes")
