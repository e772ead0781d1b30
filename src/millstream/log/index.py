"""Sparse map from a rising key to a byte position inside one segment: the offset and the time index.

Why: finding an offset, a timestamp or the last batch boundary before a byte must not scan the segment.
Rows: an offset index maps a batch's offset (relative to the segment) to its position; a time index maps a
timestamp that no earlier batch passes to the position where later batches start.
Invariants: keys strictly increase, positions too; every position is the start of a batch; position 0 is
implied. Rows live in memory while a segment grows and are written once it is sealed, with a checksum and the
number of segment bytes they cover.
Deleting the file is safe: it is rebuilt from the segment. The byte order is the machine's own; a file from
another kind of machine fails its checksum and is rebuilt too.
"""

import os
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from crc32c import crc32c

from millstream.log.files import replace_file

OFFSET_KEY = "I"
TIME_KEY = "q"
_POSITION = "I"
_MAGIC = b"MSINDEX1"
_HEADER = Struct("=8s4sIIQ")  # magic, key type, crc, rows, segment bytes covered


class SparseIndex:
    __slots__ = ("_key_type", "keys", "positions")

    def __init__(self, key_type: str) -> None:
        self._key_type = key_type
        self.keys: array[int] = array(key_type)
        self.positions: array[int] = array(_POSITION)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def size_bytes(self) -> int:
        return len(self.keys) * (self.keys.itemsize + self.positions.itemsize)

    def add(self, key: int, position: int) -> None:
        """Add a row; one that would not rise is left out."""
        if not self.keys or (key > self.keys[-1] and position > self.positions[-1]):
            self.keys.append(key)
            self.positions.append(position)

    def position_at(self, key: int) -> int:
        """Position of the last row whose key is at most `key`."""
        row = bisect_right(self.keys, key)
        return self.positions[row - 1] if row else 0

    def position_below(self, key: int) -> int:
        """Position of the last row whose key is less than `key`."""
        row = bisect_left(self.keys, key)
        return self.positions[row - 1] if row else 0

    def boundary_at(self, position: int) -> int:
        """The last known start of a batch that is at most `position`."""
        row = bisect_right(self.positions, position)
        return self.positions[row - 1] if row else 0

    def key_at(self, position: int) -> int | None:
        """The key of the row for exactly this position, if there is one."""
        row = bisect_left(self.positions, position)
        if row < len(self.positions) and self.positions[row] == position:
            return self.keys[row]
        return None

    def cut(self, position: int) -> None:
        """Forget rows at and behind `position`."""
        row = bisect_left(self.positions, position)
        del self.keys[row:]
        del self.positions[row:]

    def save(self, path: str, *, covered: int) -> None:
        rows = self.keys.tobytes() + self.positions.tobytes()
        header = _HEADER.pack(_MAGIC, self._key_type.encode(), 0, len(self.keys), covered)
        crc = crc32c(rows, crc32c(header))
        header = _HEADER.pack(_MAGIC, self._key_type.encode(), crc, len(self.keys), covered)
        replace_file(path, header + rows, sync=False)


def load_index(path: str, key_type: str) -> tuple[SparseIndex, int] | None:
    """The saved index and the segment bytes it covers; None when the file is missing or not to be trusted."""
    try:
        with open(path, "rb") as file:
            content = file.read(os.fstat(file.fileno()).st_size)
    except OSError:
        return None
    if len(content) < _HEADER.size:
        return None
    magic, key, crc, rows, covered = _HEADER.unpack_from(content)
    index = SparseIndex(key_type)
    row_bytes = index.keys.itemsize + index.positions.itemsize
    if (
        magic != _MAGIC
        or key.rstrip(b"\0") != key_type.encode()
        or len(content) != _HEADER.size + rows * row_bytes
    ):
        return None
    body = memoryview(content)[_HEADER.size :]
    if crc32c(body, crc32c(_HEADER.pack(magic, key, 0, rows, covered))) != crc:
        return None
    split = rows * index.keys.itemsize
    index.keys.frombytes(body[:split])
    index.positions.frombytes(body[split:])
    return index, covered
