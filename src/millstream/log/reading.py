"""Finding batches in one segment, and handing out their bytes.

Why: a fetch moves whole batches from the page cache to a socket; the fewer bytes are looked at, the better.
Invariants: what is returned starts and ends at batch boundaries, holds no damaged and no unchecked byte, and
never reaches the limit. Lookups never trust a byte that was not checked.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from millstream.codec.batch import HEADER_SIZE, BatchHeader, read_header
from millstream.log.epochs import LeaderEpochs
from millstream.log.files import OpenFiles, read_exactly
from millstream.log.index import OFFSET_KEY, TIME_KEY, SparseIndex, load_index
from millstream.log.scan import NO_LIMIT, ChunkReader, Expectations, checked_batches
from millstream.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Damage, Segment

COPY_BYTES_MAX = 64 << 10
"""Below this a copy (pread) is cheaper than the page faults of a mapping."""

CHECK_BYTES_MAX = 256 << 10
"""Bytes checked for one read; it returns less rather than keep everyone waiting."""

INDEX_INTERVAL_BYTES = 4096
"""Of an index that is rebuilt; a topic's own index.interval.bytes rules while a segment grows."""

_WALK_BYTES = 8 << 10
_PLACE = Struct(">qi11xi")  # base offset, length, last offset delta
_PLACE_SIZE = _PLACE.size
_OVERHEAD = 12

_unpack_place = _PLACE.unpack_from


class ReadResult(NamedTuple):
    buffers: list[memoryview | bytes]
    size: int
    corrupt: bool = False
    """Whether a damaged range follows: a read at the next offset raises CorruptRange."""


EMPTY = ReadResult([], 0)


class SegmentReader:
    """Reads segments of one partition, which shares its files and its epochs."""

    __slots__ = ("_files", "epochs")

    def __init__(self, files: OpenFiles, epochs: LeaderEpochs) -> None:
        self._files = files
        self.epochs = epochs

    def read(
        self, segment: Segment, offset: int, size_max: int, limit: int, *, min_one: bool
    ) -> ReadResult | None:
        """Whole batches from the one that holds `offset`, or the next one; None if there is none below `limit`."""
        stop = segment.size
        if segment.unchecked_end:
            stop = self.check(segment, offset, min(size_max, CHECK_BYTES_MAX))
        start = segment.hints.get(offset)
        if start is None:
            start = self.position_of(segment, offset)
        if limit < segment.next_offset:
            stop = min(stop, self.position_of(segment, limit))
        corrupt = False
        if segment.damaged:
            damage = segment.next_damage(start)
            corrupt = damage <= stop and damage < segment.size
            stop = min(stop, damage)
        if start >= stop:
            return None
        if stop - start <= size_max:
            if stop == segment.size:
                segment.hint(segment.next_offset, stop)
            return ReadResult([self._bytes(segment, start, stop)], stop - start, corrupt)
        return self._read_part(segment, start, stop, size_max, min_one=min_one)

    def position_of(self, segment: Segment, offset: int) -> int:
        """Where the first batch starts that ends at or behind `offset`; the segment's size without one."""
        if offset >= segment.next_offset:
            return segment.size
        hint = segment.hints.get(offset)
        if hint is not None:
            return hint
        index = segment.offsets
        if index is None:
            index = self.load_offsets(segment)
        position = index.position_at(offset - segment.base_offset)
        found = self._walk(segment, position, offset)
        segment.hint(offset, found)
        return found

    def load_offsets(self, segment: Segment) -> SparseIndex:
        """The segment's offset index from its file, or rebuilt if that is not to be trusted."""
        if segment.offsets is None:
            self._load(segment)
        assert segment.offsets is not None
        return segment.offsets

    def load_times(self, segment: Segment) -> SparseIndex:
        if segment.times is None:
            self._load(segment)
        assert segment.times is not None
        return segment.times

    def _load(self, segment: Segment) -> None:
        offsets = load_index(segment.path(INDEX_SUFFIX), OFFSET_KEY)
        times = load_index(segment.path(TIME_INDEX_SUFFIX), TIME_KEY)
        if offsets is not None and times is not None and offsets[1] == times[1] == segment.size:
            segment.offsets = offsets[0]
            segment.times = times[0]
        else:
            self._rebuild(segment)
        self._files.keep_indexes(segment)

    def _rebuild(self, segment: Segment) -> None:
        """Both indexes from the bytes of the segment, which are checked on the way."""
        twin = Segment(segment.directory, segment.base_offset)
        twin.start_indexes()
        reader = ChunkReader(self._files.open(segment.file), segment.size)
        for found in checked_batches(
            reader, 0, segment.base_offset, self._expectations(segment, segment.next_offset)
        ):
            if isinstance(found, Damage):
                if found.next_offset < 0:
                    found = found._replace(next_offset=segment.next_offset)
                segment.add_damage(found)
                twin.size = found.end
                continue
            _, header = found
            twin.add(
                header.base_offset,
                header.next_offset,
                header.size,
                header.max_timestamp,
                INDEX_INTERVAL_BYTES,
            )
        segment.offsets, segment.times = twin.offsets, twin.times
        segment.mark_checked(0, segment.size, segment.next_offset)
        with suppress(OSError):
            segment.save_indexes()

    def check(self, segment: Segment, offset: int, size_max: int) -> int:
        """Check bytes from the batch that holds `offset` on, about `size_max` of them; returns where they end.

        Damage that comes to light is noted in the segment.
        """
        offsets = self.load_offsets(segment)
        start = offsets.position_at(offset - segment.base_offset)
        if start >= segment.unchecked_end:
            return segment.size
        key = offsets.key_at(start)
        begin, begin_offset = start, segment.base_offset + (key or 0)
        known = segment.checked_from(start)
        if known is not None:
            begin, begin_offset = known
            if begin_offset > offset:
                return begin
        end = self._check_from(segment, begin, begin_offset, offset, size_max)
        return segment.size if end >= segment.unchecked_end else end

    def batches(self, segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every intact batch from the one that holds `offset` on."""
        while True:
            stop = segment.size
            if segment.unchecked_end:
                stop = self.check(segment, offset, CHECK_BYTES_MAX)
            position = self.position_of(segment, offset)
            for place, header in self._headers(segment, position, stop):
                yield place, header
                offset = header.next_offset
            if stop >= segment.size:
                return
            reached = segment.checked_from(stop)
            offset = max(offset, reached[1]) if reached is not None else offset

    def _headers(self, segment: Segment, position: int, stop: int) -> Iterator[tuple[int, BatchHeader]]:
        while position < stop:
            damage = segment.damage_at(position)
            if damage is not None:
                position = damage.end
                continue
            end = min(stop, segment.next_damage(position))
            chunk = os.pread(self._files.open(segment.file), min(_WALK_BYTES, end - position), position)
            index = 0
            while len(chunk) - index >= HEADER_SIZE:
                header = read_header(chunk, index)
                yield position + index, header
                index += header.size
            if not index:
                return
            position += index

    def _check_from(self, segment: Segment, begin: int, begin_offset: int, offset: int, size_max: int) -> int:
        reader = ChunkReader(self._files.open(segment.file), segment.unchecked_end)
        end, end_offset = begin, begin_offset
        expect = self._expectations(segment, segment.unchecked_offset)
        for found in checked_batches(reader, begin, begin_offset, expect):
            if isinstance(found, Damage):
                if found.next_offset < 0:
                    found = found._replace(next_offset=segment.unchecked_offset)
                segment.add_damage(found)
                end, end_offset = found.end, found.next_offset
                continue
            position, header = found
            end, end_offset = position + header.size, header.next_offset
            if end_offset > offset and end - begin >= size_max:
                break
        segment.mark_checked(begin, end, end_offset)
        return end

    def _expectations(self, segment: Segment, offset_max: int) -> Expectations:
        return Expectations(
            has_gaps=segment.is_compacted,
            epoch_max=max(0, self.epochs.latest),
            offset_max=offset_max,
            epochs=self.epochs,
            epochs_until=NO_LIMIT,
        )

    def _read_part(
        self, segment: Segment, start: int, stop: int, size_max: int, *, min_one: bool
    ) -> ReadResult:
        """More lies below `stop` than fits: end at the last batch boundary that does."""
        boundary = max(start, self.load_offsets(segment).boundary_at(start + size_max))
        end = self._last_boundary(segment, boundary, start + size_max)
        if end == start:
            if not min_one:
                return EMPTY
            head = os.pread(self._files.open(segment.file), _PLACE_SIZE, start)
            end = start + _unpack_place(head)[1] + _OVERHEAD
        return ReadResult([self._bytes(segment, start, end)], end - start)

    def _last_boundary(self, segment: Segment, position: int, position_max: int) -> int:
        """The last batch boundary up to `position_max`; a batch is known to start at `position`."""
        fd = self._files.open(segment.file)
        while True:
            chunk = os.pread(fd, _WALK_BYTES, position)
            index = 0
            index_max = len(chunk) - _PLACE_SIZE
            while index <= index_max:
                base_offset, length, _ = _unpack_place(chunk, index)
                if position + index + length + _OVERHEAD > position_max:
                    segment.hint(base_offset, position + index)
                    return position + index
                index += length + _OVERHEAD
            if index == 0:
                return position
            position += index

    def _walk(self, segment: Segment, position: int, offset: int) -> int:
        fd = self._files.open(segment.file)
        end = segment.size
        while position < end:
            stop = end
            if segment.damaged:
                damage = segment.damage_at(position)
                if damage is not None:
                    position = damage.end
                    continue
                stop = segment.next_damage(position)
            chunk = os.pread(fd, min(_WALK_BYTES, stop - position), position)
            index = 0
            index_max = len(chunk) - _PLACE_SIZE
            while index <= index_max:
                base_offset, length, delta = _unpack_place(chunk, index)
                if base_offset + delta >= offset:
                    return position + index
                index += length + _OVERHEAD
            if index == 0:
                return end
            position += index
        return end

    def _bytes(self, segment: Segment, start: int, end: int) -> memoryview | bytes:
        file = segment.file
        if end - start > COPY_BYTES_MAX:
            return self._files.slice(file, start, end, segment.size)
        file.is_recent = True
        return read_exactly(file.fd if file.fd >= 0 else self._files.open(file), start, end, file.path)
