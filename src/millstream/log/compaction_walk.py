"""Reading the segments to compact: batch by batch past any damage, and the last offset of each key.

Why: compaction must see exactly what readers can see, no more and no less. A record hidden in damaged bytes
outlives no other; one that can be read again behind the damage counts.
Invariants: a batch that is walked over has a valid CRC and rising offsets; what `latest_offsets` holds is
decided: the map has no record of an aborted transaction, and nothing from `reached` on.
Memory: a chunk of the file (or one batch), and `keys_max` keys. Keys of 16 bytes and more are remembered by a
digest of 16 bytes, shorter ones as they are, so that no key can stand for another.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from millstream.codec.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_is_valid, read_header
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import ControlKind, read_payload
from millstream.codec.scan import RecordSpan, scan_records
from millstream.log.scan import CHUNK_BYTES, ChunkReader, Expectations, checked_batches
from millstream.log.segment import LOG_SUFFIX, Damage, segment_name

_EPOCH_MAX = 2**31 - 1
_CRC_FROM = 21
_DIGEST_SIZE = 16
_MARKER_KEY = Struct(">hh")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSegment:
    """A sealed segment as the log knows it; its file is named after its base offset."""

    base_offset: int
    next_offset: int
    size: int


class Source(NamedTuple):
    segment: SourceSegment
    fd: int
    reader: ChunkReader


class Step(NamedTuple):
    """A batch, or damage where `header` is None: bytes [position, end) of a source."""

    position: int
    end: int
    header: BatchHeader | None
    damage: Damage | None
    chunk: bytes
    at: int
    """Where in `chunk` the batch starts."""

    def batch(self) -> memoryview:
        return memoryview(self.chunk)[self.at : self.at + self.end - self.position]


class LatestOffsets(NamedTuple):
    offsets: dict[bytes, int]
    reached: int
    """All records below are accounted for, and none at or past it."""
    aborted: frozenset[int]
    """Base offsets of batches whose transaction was aborted."""


@contextmanager
def open_source(directory: str, segment: SourceSegment) -> Iterator[Source]:
    path = f"{directory}/{segment_name(segment.base_offset)}{LOG_SUFFIX}"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield Source(segment, fd, ChunkReader(fd, segment.size))
    finally:
        os.close(fd)


def walk(source: Source) -> Iterator[Step]:
    """Every byte of the segment, as batches and damage."""
    segment = source.segment
    position = 0
    offset = segment.base_offset
    while position < segment.size:
        step = _intact(source, position, offset) or _past_damage(source, position, offset)
        yield step
        position = step.end
        offset = (
            step.header.next_offset if step.header is not None else max(offset, _offset_behind(source, step))
        )


def _intact(source: Source, position: int, offset: int) -> Step | None:
    """The batch at `position` if nothing is wrong with it; the short way for nearly all of them."""
    segment, _, reader = source
    chunk, index = reader.at(position, HEADER_SIZE)
    try:
        header = read_header(chunk, index)
    except CorruptBatch:
        return None
    size = header.size
    if (
        header.magic != MAGIC
        or size > segment.size - position
        or header.base_offset < offset
        or header.last_offset_delta < 0
        or header.next_offset > segment.next_offset
    ):
        return None
    if index + size > len(chunk):
        # A length that is wrong must not make us read it all into memory.
        if size > CHUNK_BYTES and reader.crc(position + _CRC_FROM, position + size) != header.crc:
            return None
        chunk, index = reader.at(position, size)
    if not crc_is_valid(chunk, index, size):
        return None
    return Step(position, position + size, header, None, chunk, index)


def _past_damage(source: Source, position: int, offset: int) -> Step:
    segment, _, reader = source
    expect = Expectations(has_gaps=True, epoch_max=_EPOCH_MAX, offset_max=segment.next_offset)
    found = next(checked_batches(reader, position, offset, expect))
    if isinstance(found, Damage):
        return Step(found.position, found.end, None, found, b"", 0)
    start, header = found
    chunk, index = reader.at(start, header.size)
    return Step(start, start + header.size, header, None, chunk, index)


def _offset_behind(source: Source, step: Step) -> int:
    assert step.damage is not None
    return step.damage.next_offset if step.damage.next_offset >= 0 else source.segment.next_offset


def batches_of(directory: str, segments: Iterable[SourceSegment]) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Every intact batch of the segments in turn."""
    for segment in segments:
        with open_source(directory, segment) as source:
            for step in walk(source):
                if step.header is not None:
                    yield step.batch(), step.header


def spans_in(batch: memoryview, header: BatchHeader) -> tuple[bytes, list[RecordSpan]] | None:
    """The payload and its records' places; None if it can't be read, so that the batch is left as it is."""
    try:
        payload = read_payload(batch, header)
        return payload, scan_records(payload, header.record_count)
    except CorruptBatch:
        return None


def key_digest(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_SIZE else blake2b(key, digest_size=_DIGEST_SIZE).digest()


def latest_offsets(
    directory: str,
    segments: Sequence[SourceSegment],
    *,
    first_offset: int,
    upto_offset: int,
    keys_max: int,
) -> LatestOffsets:
    """The last offset of each key in [first_offset, upto_offset), or in as much of it as `keys_max` allows."""
    offsets: dict[bytes, int] = {}
    aborted: frozenset[int] | None = None
    dirty = [segment for segment in segments if first_offset < segment.next_offset]
    for batch, header in batches_of(directory, dirty):
        if header.last_offset < first_offset:
            continue
        if header.is_transactional and aborted is None:
            remaining = [segment for segment in dirty if header.base_offset < segment.next_offset]
            undecided_from, aborted = _decided(directory, remaining, header.base_offset)
            upto_offset = min(upto_offset, undecided_from)
        if header.next_offset > upto_offset:
            upto_offset = min(upto_offset, header.base_offset)
            break
        if header.is_control or (aborted is not None and header.base_offset in aborted):
            continue
        if offsets and len(offsets) + header.record_count > keys_max:
            upto_offset = header.base_offset
            break
        found = spans_in(batch, header)
        if found is not None:
            _remember(offsets, found[1], header.base_offset)
    return LatestOffsets(offsets, upto_offset, aborted or frozenset())


def _remember(offsets: dict[bytes, int], spans: list[RecordSpan], base_offset: int) -> None:
    for _, _, _, offset_delta, key, _, _ in spans:
        if key is not None:
            if len(key) >= _DIGEST_SIZE:
                key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
            offsets[key] = base_offset + offset_delta


def _decided(
    directory: str, segments: Sequence[SourceSegment], first_offset: int
) -> tuple[int, frozenset[int]]:
    """The first offset from `first_offset` on whose transaction has no end here, and the aborted batches."""
    open_batches: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for batch, header in batches_of(directory, segments):
        if not header.is_transactional or header.base_offset < first_offset:
            continue
        if not header.is_control:
            open_batches.setdefault(header.producer_id, []).append(header.base_offset)
            continue
        kind = marker_kind(batch, header)
        if kind is not None:
            ended = open_batches.pop(header.producer_id, [])
            if kind == ControlKind.ABORT:
                aborted.update(ended)
    undecided = (batches[0] for batches in open_batches.values())
    return min(undecided, default=2**63 - 1), frozenset(aborted)


def marker_kind(batch: memoryview, header: BatchHeader) -> ControlKind | None:
    """How the transaction ended that this control batch marks; None for any other control batch."""
    found = spans_in(batch, header)
    if found is None or len(found[1]) != 1:
        return None
    key = found[1][0][4]
    if key is None or len(key) < _MARKER_KEY.size:
        return None
    code = _MARKER_KEY.unpack_from(key)[1]
    return ControlKind(code) if code in (ControlKind.ABORT, ControlKind.COMMIT) else None
