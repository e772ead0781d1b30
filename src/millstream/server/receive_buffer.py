"""Bytes off a socket, until they are whole frames.

Why: the socket writes straight into this buffer and a produce request is appended to the log straight out of it;
between the two nothing is copied.
Invariants: 0 <= start <= end <= capacity; a frame's view is valid until the next call of `space`; capacity grows
at most fourfold at a time, so announcing a large frame costs nothing until its bytes arrive.
"""

from struct import Struct as Packer

from millstream.model.errors import PeerError

CAPACITY_MIN = 64 * 1024
GROWTH = 4

_SIZE = Packer(">i")


class OversizedRequest(PeerError):
    """A frame size that is negative or larger than this node takes."""


class ReceiveBuffer:
    __slots__ = ("_end", "_limit", "_need", "_size_max", "_start", "_store", "_view")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._allocate(CAPACITY_MIN)
        self._start = 0
        self._end = 0
        self._need = 0

    def _allocate(self, capacity: int) -> None:
        self._store = bytearray(capacity)
        self._view = memoryview(self._store)
        self._limit = capacity

    @property
    def capacity(self) -> int:
        return len(self._store)

    @property
    def is_empty(self) -> bool:
        return self._start == self._end

    def space(self) -> memoryview:
        """Where the socket writes next; never empty."""
        return self._view[self._end : self._limit]

    def wrote(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame behind its size, or None. Raises OversizedRequest."""
        start = self._start
        held = self._end - start
        if held < 4:
            self._make_room(4)
            return None
        size: int = _SIZE.unpack_from(self._store, start)[0]
        if size > self._size_max or size < 0:
            raise OversizedRequest(f"a request of {size} bytes; socket.request.max.bytes is {self._size_max}")
        if held < size + 4:
            self._make_room(size + 4)
            return None
        start += 4
        self._start = start + size
        return self._view[start : self._start]

    def _make_room(self, need: int) -> None:
        """Arrange that the socket can go on with a frame of `need` bytes, as far as capacity allows."""
        self._need = need
        capacity = len(self._store)
        held = self._end - self._start
        if held == 0:
            self._start = self._end = 0
        elif self._start + need > capacity:
            self._view[:held] = self._view[self._start : self._end]
            self._start, self._end = 0, held
        # A frame larger than the small buffer is read to its exact end, so that nothing behind it has to move.
        self._limit = min(self._start + need, capacity) if need > CAPACITY_MIN else capacity

    def growth(self) -> int:
        """Bytes that must be added before the socket can write again; 0 if it can."""
        if self._end < self._limit:
            return 0
        capacity = len(self._store)
        return min(self._need, capacity * GROWTH) - capacity

    def grow(self, count: int) -> None:
        held = self._end - self._start
        old = self._view
        begin, end = self._start, self._end
        self._allocate(len(self._store) + count)
        self._view[:held] = old[begin:end]
        self._start, self._end = 0, held
        self._limit = min(self._need, len(self._store))

    def shrink(self) -> int:
        """Go back to the smallest buffer if nothing is held; returns the bytes that were let go."""
        freed = len(self._store) - CAPACITY_MIN
        if freed == 0 or self._start != self._end:
            return 0
        self._allocate(CAPACITY_MIN)
        self._start = self._end = 0
        return freed
