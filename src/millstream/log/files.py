"""Open segment files, as few as needed, and mapped windows of them.

Why: a node with thousands of partitions must not need thousands of descriptors, and a fetch should hand out
slices of the page cache instead of copies.
Invariants: at most `limit` files are open unless more than that are pinned; a pinned file is never closed,
for a sync thread holds its number; a window is dropped, never closed, since slices of it may be on their way
to a socket. Every window holds a descriptor of its own (Python duplicates it), so windows are counted, and
reads fall back to copying when too many are alive.
"""

import errno
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from typing import Protocol
from weakref import ref

from millstream.log.errors import LogIOError, TooManyOpenFiles

WINDOW_BYTES = 4 << 20
"""What one mapping covers. Mapped pages count as memory of the process, so windows are small and few."""

WINDOWS_KEPT = 8
"""Windows held for the next read; slices keep others alive until they are sent."""

WINDOWS_ALIVE_MAX = 256

INDEX_BYTES_KEPT = 32 << 20
"""Indexes of sealed segments held in memory, over all partitions."""

TEMPORARY_SUFFIX = ".tmp"

fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Indexed(Protocol):
    """A sealed segment whose indexes can be read again from their files."""

    def index_bytes(self) -> int: ...

    def drop_indexes(self) -> None: ...


class SegmentFile:
    """One file by its path; open or not."""

    __slots__ = ("fd", "is_doomed", "is_recent", "path", "pins", "window", "window_end", "window_start")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.is_recent = False
        self.is_doomed = False
        self.window: memoryview | None = None
        self.window_start = 0
        self.window_end = 0


class OpenFiles:
    def __init__(self, limit: int = 1_000) -> None:
        self.limit = limit
        self._ring: deque[SegmentFile] = deque()
        self._windowed: deque[SegmentFile] = deque()
        self._windows_alive: set[ref[mmap]] = set()
        self._indexed: deque[Indexed] = deque()
        self._index_bytes = 0

    @property
    def open_count(self) -> int:
        return len(self._ring)

    @property
    def window_count(self) -> int:
        return len(self._windows_alive)

    def open(self, file: SegmentFile, *, create: bool = False) -> int:
        """The file's descriptor. `create` makes the file, which must not exist with anything in it."""
        file.is_recent = True
        if file.fd >= 0:
            return file.fd
        while len(self._ring) + len(self._windows_alive) >= self.limit and self._evict():
            pass
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        while True:
            try:
                fd = os.open(file.path, flags, 0o644)
                break
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    if error.errno in (errno.EACCES, errno.EROFS) and not create and flags & os.O_RDWR:
                        flags = os.O_RDONLY | os.O_CLOEXEC  # an archive may be read-only
                        continue
                    raise
                if not self._shrink():
                    raise TooManyOpenFiles(file.path) from None
        if create and os.fstat(fd).st_size:
            os.close(fd)
            raise LogIOError(
                file.path, FileExistsError(errno.EEXIST, "exists, though the log doesn't know it")
            )
        file.fd = fd
        self._ring.append(file)
        return fd

    def pin(self, file: SegmentFile) -> int:
        """The file's descriptor, kept open until `unpin`."""
        fd = self.open(file)
        file.pins += 1
        return fd

    def unpin(self, file: SegmentFile) -> None:
        file.pins -= 1
        if file.is_doomed and not file.pins:
            self.close(file)

    def close(self, file: SegmentFile) -> None:
        """Close the file, once nothing pins it."""
        self.drop_window(file)
        if file.pins:
            file.is_doomed = True
            return
        file.is_doomed = False
        if file.fd >= 0:
            fd, file.fd = file.fd, -1
            self._ring.remove(file)
            os.close(fd)

    def close_all(self) -> None:
        for file in list(self._ring):
            file.pins = 0
            self.close(file)
        self.drop_windows()

    def slice(self, file: SegmentFile, start: int, end: int, file_size: int) -> memoryview:
        """The bytes [start, end) without a copy if possible. `end` must not pass the `file_size` written."""
        window = file.window
        if window is None or start < file.window_start or end > file.window_end:
            window = self._map(file, start, end, file_size)
            if window is None:
                return memoryview(read_exactly(self.open(file), start, end, file.path))
        base = file.window_start
        return window[start - base : end - base]

    def keep_indexes(self, segment: Indexed) -> None:
        """Count a sealed segment's indexes as loaded; those loaded longest ago make way."""
        self._indexed.append(segment)
        self._index_bytes += segment.index_bytes()
        while self._index_bytes > INDEX_BYTES_KEPT and len(self._indexed) > 1:
            oldest = self._indexed.popleft()
            self._index_bytes -= oldest.index_bytes()
            oldest.drop_indexes()

    def release_indexes(self, segment: Indexed) -> None:
        """A segment's indexes are no longer ours to drop: it grows."""
        if segment in self._indexed:
            self._index_bytes -= segment.index_bytes()
            self._indexed.remove(segment)

    def drop_window(self, file: SegmentFile) -> None:
        if file.window is not None:
            file.window = None
            file.window_start = file.window_end = 0
            self._windowed.remove(file)

    def drop_windows(self) -> None:
        """Give back the mapped memory that no reader holds. Worth calling when a node is idle."""
        while self._windowed:
            self.drop_window(self._windowed[0])

    def _map(self, file: SegmentFile, start: int, end: int, file_size: int) -> memoryview | None:
        self.drop_window(file)
        if len(self._windows_alive) >= WINDOWS_ALIVE_MAX:
            return None
        window_start = start - start % ALLOCATIONGRANULARITY
        length = max(min(window_start + WINDOW_BYTES, file_size), end) - window_start
        try:
            mapped = mmap(self.open(file), length, access=ACCESS_READ, offset=window_start)
        except (OSError, ValueError):
            return None  # out of descriptors or of address space: copying still works
        self._windows_alive.add(ref(mapped, self._windows_alive.discard))
        while len(self._windowed) >= WINDOWS_KEPT:
            self.drop_window(self._windowed[0])
        self._windowed.append(file)
        file.window = memoryview(mapped)
        file.window_start = window_start
        file.window_end = window_start + length
        return file.window

    def _evict(self) -> bool:
        """Close the file that was idle longest (second chance); False when every one is pinned."""
        for _ in range(2 * len(self._ring)):
            file = self._ring[0]
            if file.pins or file.is_recent:
                file.is_recent = False
                self._ring.rotate(-1)
                continue
            self.close(file)
            return True
        return False

    def _shrink(self) -> bool:
        """Descriptors ran out below our own limit: live with a quarter less from now on."""
        self.drop_windows()
        aim = len(self._ring) * 3 // 4
        self.limit = max(16, min(self.limit, aim))
        closed = False
        while len(self._ring) > aim and self._evict():
            closed = True
        return closed


def read_exactly(fd: int, start: int, end: int, path: str) -> bytes:
    """The bytes [start, end), which were written. Raises LogIOError if the file has become shorter."""
    content = os.pread(fd, end - start, start)
    if len(content) != end - start:
        raise LogIOError(path, OSError(errno.EIO, f"ends before byte {end}, which was written"))
    return content


def sync_directory(path: str) -> None:
    """Make the directory's entries durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str, content: bytes, *, sync: bool) -> None:
    """Write `content` beside `path` and rename it there: a reader sees the old or the new, never a part.

    Without `sync` a power cut may leave either, or an empty file: the content needs a checksum.
    """
    temporary = path + TEMPORARY_SUFFIX
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directory(os.path.dirname(path))
