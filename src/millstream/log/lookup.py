"""From a point in time to an offset.

Why: consumers ask for "yesterday at noon"; the time index finds the batch, and one batch is decoded to find the
record in it.
Invariants: answers are exact to the record; nothing at or behind the limit is found, nor anything damaged.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from millstream.codec.batch import BatchHeader
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import Record, decode_records
from millstream.log.files import OpenFiles
from millstream.log.reading import SegmentReader
from millstream.log.segment import Segment


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeLookup:
    """Looks for times in the segments of one partition, in [start, limit)."""

    def __init__(
        self, segments: Sequence[Segment], reader: SegmentReader, files: OpenFiles, *, start: int, limit: int
    ) -> None:
        self._segments = segments
        self._reader = reader
        self._files = files
        self._start = start
        self._limit = limit

    def first_at_or_after(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose timestamp is at least `timestamp_ms`."""
        for segment in self._in_range():
            if segment.max_timestamp < timestamp_ms:
                continue
            position = self._reader.load_times(segment).position_below(timestamp_ms)
            # Every row of the time index has one in the offset index.
            first = segment.base_offset + (self._reader.load_offsets(segment).key_at(position) or 0)
            for place, header in self._reader.batches(segment, max(first, self._start)):
                if header.base_offset >= self._limit:
                    break
                if header.max_timestamp < timestamp_ms:
                    continue
                for record in self._records(segment, place, header):
                    if record.timestamp_ms >= timestamp_ms:
                        return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        return None

    def newest(self) -> TimestampOffset | None:
        """The first record with the largest timestamp."""
        best: TimestampOffset | None = None
        for segment in self._in_range():
            if segment.max_timestamp < 0 or (best and segment.max_timestamp <= best.timestamp_ms):
                continue
            found = self._known_newest(segment) or self._newest_in(segment)
            if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
                best = found
        return best

    def _in_range(self) -> list[Segment]:
        return [s for s in self._segments if s.next_offset > self._start and s.base_offset < self._limit]

    def _known_newest(self, segment: Segment) -> TimestampOffset | None:
        """The segment knows which batch has its newest record; it may be damaged, or out of range."""
        offset = segment.max_timestamp_offset
        if not self._start <= offset < self._limit:
            return None
        place, header = next(self._reader.batches(segment, offset), (0, None))
        if header is None or header.base_offset != offset:
            return None
        for record in self._records(segment, place, header):
            if record.timestamp_ms == segment.max_timestamp:
                return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        return None

    def _newest_in(self, segment: Segment) -> TimestampOffset | None:
        best: TimestampOffset | None = None
        for place, header in self._reader.batches(segment, max(segment.base_offset, self._start)):
            if header.base_offset >= self._limit:
                break
            if best is not None and header.max_timestamp <= best.timestamp_ms:
                continue
            for record in self._records(segment, place, header):
                if best is None or record.timestamp_ms > best.timestamp_ms:
                    best = TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        return best

    def _records(self, segment: Segment, position: int, header: BatchHeader) -> list[Record]:
        if header.is_control:
            return []
        batch = os.pread(self._files.open(segment.file), header.size, position)
        try:
            return [record for record in decode_records(batch) if record.offset >= self._start]
        except CorruptBatch:
            return []  # its bytes are as they came: a producer's fault, not the disk's
