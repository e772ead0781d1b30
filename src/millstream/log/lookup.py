"""From a point in time to an offset.

Why: consumers ask for "yesterday at noon"; the time index finds the batch, and one batch is decoded to find the
record in it.
Invariants: answers are exact to the record; nothing at or behind the limit is found, nor anything damaged.
"""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from millstream.codec.batch import HEADER_SIZE, BatchHeader, read_header
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import Record, decode_records
from millstream.log.files import OpenFiles
from millstream.log.reading import SegmentReader
from millstream.log.segment import Segment

_CHUNK_BYTES = 16 << 10


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment],
    reader: SegmentReader,
    files: OpenFiles,
    timestamp_ms: int,
    *,
    start: int,
    limit: int,
) -> TimestampOffset | None:
    """The first record in [start, limit) whose timestamp is at least `timestamp_ms`."""
    for segment in segments:
        if segment.max_timestamp < timestamp_ms or segment.next_offset <= start:
            continue
        if segment.base_offset >= limit:
            break
        reader.check_all(segment)
        position = reader.load_times(segment).position_below(timestamp_ms)
        for place, header in _headers(segment, files, position):
            if header.base_offset >= limit:
                break
            if header.max_timestamp < timestamp_ms or header.last_offset < start:
                continue
            for record in _records(segment, files, place, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start:
                    return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def newest(
    segments: Sequence[Segment], reader: SegmentReader, files: OpenFiles, *, start: int, limit: int
) -> TimestampOffset | None:
    """The first record with the largest timestamp in [start, limit)."""
    best: TimestampOffset | None = None
    for segment in segments:
        if segment.max_timestamp < 0 or segment.next_offset <= start or segment.base_offset >= limit:
            continue
        if best is not None and segment.max_timestamp <= best.timestamp_ms:
            continue
        found = _newest_in(segment, reader, files, start=start, limit=limit)
        if found is not None and (best is None or found.timestamp_ms > best.timestamp_ms):
            best = found
    return best


def _newest_in(
    segment: Segment, reader: SegmentReader, files: OpenFiles, *, start: int, limit: int
) -> TimestampOffset | None:
    reader.check_all(segment)
    offset = segment.max_timestamp_offset
    if start <= offset < limit:
        place = reader.position_of(segment, offset)
        for _, header in _headers(segment, files, place):
            if header.base_offset != offset:
                break  # damaged: look at all of them
            for record in _records(segment, files, place, header):
                if record.timestamp_ms == segment.max_timestamp:
                    return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
            break
    # The newest record is not yet, or no longer, to be seen.
    best: TimestampOffset | None = None
    for place, header in _headers(segment, files, reader.position_of(segment, start)):
        if header.base_offset >= limit:
            break
        if best is not None and header.max_timestamp <= best.timestamp_ms:
            continue
        for record in _records(segment, files, place, header):
            if record.offset >= start and (best is None or record.timestamp_ms > best.timestamp_ms):
                best = TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return best


def _headers(segment: Segment, files: OpenFiles, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Every intact batch from `position` on, which must be where a batch starts or damage does."""
    while position < segment.size:
        damage = segment.damage_at(position)
        if damage is not None:
            position = damage.end
            continue
        stop = segment.next_damage(position)
        chunk = os.pread(files.open(segment.file), min(_CHUNK_BYTES, stop - position), position)
        index = 0
        while len(chunk) - index >= HEADER_SIZE:
            header = read_header(chunk, index)
            yield position + index, header
            index += header.size
        if not index:
            return
        position += index


def _records(segment: Segment, files: OpenFiles, position: int, header: BatchHeader) -> list[Record]:
    if header.is_control:
        return []
    try:
        return decode_records(os.pread(files.open(segment.file), header.size, position))
    except CorruptBatch:
        return []  # its bytes are as they came: a producer's fault, not the disk's
