"""The file that compaction writes in the place of a segment, or of several small ones, and its indexes.

Why: most of a large log doesn't change from one compaction to the next; a segment that comes out as it went
in should cost no writing at all.
Invariants: nothing is written for a lone segment before its first change; the file is synced when `finish`
returns. Bytes that are copied raw are read again from the segment with errors raised, never replaced.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.codec.batch import BatchHeader, Buffer, read_header
from millstream.log.compaction_walk import Source, SourceSegment, Step
from millstream.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment

CLEANED_SUFFIX = ".cleaned"
_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedSegment:
    """`BASE.log.cleaned`, with `BASE.index.cleaned` and `BASE.timeindex.cleaned` beside it."""

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    sources: tuple[int, ...]
    """Base offsets of the segments it replaces; the first is its own."""
    damaged: tuple[tuple[int, int, int, int], ...] = ()
    """(position, end, first offset, next offset) of damaged bytes that were carried over."""

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "CompactedSegment":
        fields["sources"] = tuple(fields["sources"])
        fields["damaged"] = tuple(tuple(damage) for damage in fields["damaged"])
        return cls(**fields)


def cleaned_paths(directory: str, base_offset: int) -> list[str]:
    segment = Segment(directory, base_offset)
    return [segment.path(suffix) + CLEANED_SUFFIX for suffix in _SUFFIXES]


class CleanedFile:
    def __init__(self, directory: str, group: Sequence[SourceSegment], *, index_interval: int) -> None:
        self._group = group
        self._interval = index_interval
        self._segment = Segment(directory, group[0].base_offset)
        self._segment.start_indexes()
        self._paths = cleaned_paths(directory, group[0].base_offset)
        self._source: Source | None = None
        self._fd = -1
        self._buffer = bytearray()
        self._damaged: list[tuple[int, int, int, int]] = []

    def begin(self, source: Source) -> None:
        """What is copied from now on comes from this segment."""
        self._source = source
        if len(self._group) > 1 and self._fd < 0:
            self._open()

    def copy(self, step: Step) -> None:
        """A batch as it is."""
        assert step.header is not None
        self._add(step.header)
        if self._fd >= 0:
            self._put(step.batch())

    def copy_damage(self, step: Step) -> None:
        """Bytes as they are, whatever they are."""
        assert step.damage is not None
        assert self._source is not None
        start = self._segment.size
        next_offset = step.damage.next_offset
        if next_offset < 0:
            next_offset = self._source.segment.next_offset
        self._damaged.append((start, start + step.end - step.position, step.damage.first_offset, next_offset))
        self._segment.size += step.end - step.position
        if self._fd >= 0:
            self._put_raw(step.position, step.end)

    def write(self, batch: bytearray | None, position: int) -> None:
        """Another batch, or none, instead of the one at `position` of the source."""
        if self._fd < 0:
            self._open()
            self._put_raw(0, position)
        if batch is not None:
            self._add(read_header(batch))
            self._put(batch)

    def finish(self) -> CompactedSegment | None:
        """Sync the file and write its indexes; None if there was no change and so no file."""
        if self._fd < 0:
            return None
        self._flush()
        os.fsync(self._fd)
        segment = self._segment
        assert segment.offsets is not None
        assert segment.times is not None
        segment.offsets.save(self._paths[1], covered=segment.size)
        segment.times.save(self._paths[2], covered=segment.size)
        return CompactedSegment(
            base_offset=segment.base_offset,
            next_offset=self._group[-1].next_offset,
            size=segment.size,
            max_timestamp=segment.max_timestamp,
            max_timestamp_offset=segment.max_timestamp_offset,
            sources=tuple(source.base_offset for source in self._group),
            damaged=tuple(self._damaged),
        )

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._fd = os.open(self._paths[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def _add(self, header: BatchHeader) -> None:
        self._segment.add(
            header.base_offset, header.next_offset, header.size, header.max_timestamp, self._interval
        )

    def _put(self, content: Buffer) -> None:
        self._buffer += content
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _put_raw(self, start: int, end: int) -> None:
        assert self._source is not None
        while start < end:
            content = os.pread(self._source.fd, min(_BUFFER_BYTES, end - start), start)
            if not content:
                raise OSError(f"the segment at offset {self._source.segment.base_offset} ends at {start}")
            self._put(content)
            start += len(content)

    def _flush(self) -> None:
        with memoryview(self._buffer) as view:
            written = 0
            while written < len(view):
                written += os.write(self._fd, view[written:])
        self._buffer.clear()
