"""Opening a partition's directory: what is trusted, what is scanned, what is cut.

Why: after a crash the end of a log may be torn, and anywhere in it a disk may have changed a bit; whoever
appends and reads afterwards must not notice the first and must not be harmed by the second.
Rules: what the checkpoint vouches for is taken as it is, and checked when it is first read. The rest is
scanned, batch by batch. A torn tail is cut, if nothing intact follows and nothing says that it was synced.
Any other damage is kept in its file and remembered as a damaged range: reading there fails, all else is served.
Invariants: no byte that was synced for certain is ever cut; the end offset never falls below what the
checkpoint knows; indexes, epochs and producers afterwards agree with the batches.
"""

import os
from dataclasses import dataclass, field
from struct import Struct

from millstream.codec.batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import RECORD_SIZE_MIN
from millstream.log.checkpoint import (
    Checkpoint,
    DamageEntry,
    SegmentEntry,
    Snapshot,
    load_checkpoint,
    load_snapshot,
)
from millstream.log.epochs import LeaderEpochs
from millstream.log.files import OpenFiles
from millstream.log.index import OFFSET_KEY, TIME_KEY, load_index
from millstream.log.inventory import FileStamp, Inventory, take_inventory
from millstream.log.producers import ProducerStates
from millstream.log.scan import NO_LIMIT, ChunkReader, Expectations, checked_batches
from millstream.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Damage, Segment
from millstream.model.topics import TopicPartition

_SECTOR_BYTES = 512
_ZEROS_MIN = 16
_CRC_FROM = 21
_RECORDS_MAX = 1 << 20
_EPOCH_MAX = 2**31 - 1
_RAW_HEADER = Struct(">qiibIhiqqqhii")


@dataclass(slots=True)
class Recovered:
    directory: str
    archive_directory: str
    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates
    start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    cleaned_to: int = 0
    delete_horizon_ms: int = -1
    was_scanned: bool = False
    checkpoint: Checkpoint | None = None
    new_directories: list[str] = field(default_factory=list)
    unsynced: list[Segment] = field(default_factory=list)
    """Segments with bytes that may be in the page cache only."""
    leftovers: list[str] = field(default_factory=list)
    """Files set aside earlier that can be unlinked."""


def entry_of(segment: Segment) -> SegmentEntry:
    return SegmentEntry(
        base_offset=segment.base_offset,
        next_offset=segment.next_offset,
        size=segment.size,
        max_timestamp=segment.max_timestamp,
        max_timestamp_offset=segment.max_timestamp_offset,
        first_append_ms=segment.first_append_ms,
        compacted=segment.is_compacted,
        archived=segment.is_archived,
        modified_ns=segment.modified_ns,
        damaged=tuple(DamageEntry(*damage) for damage in segment.damaged),
    )


def recover(
    directory: str,
    archive_directory: str,
    *,
    partition: TopicPartition,
    leader_epoch: int,
    files: OpenFiles,
    was_clean: bool,
    interval: int,
    now_ms: int,
) -> Recovered:
    """The log that the directories hold. Cuts a torn tail; changes nothing else that was ever written."""
    found = Recovered(directory, archive_directory, [], LeaderEpochs(), ProducerStates(partition))
    inventory = take_inventory(directory)
    if inventory is None:
        os.makedirs(directory)
        inventory = Inventory()
    archive = take_inventory(archive_directory) or Inventory()
    # A copy to another device that was not yet followed by the removal here: the local file counts.
    archived = {base: stamp for base, stamp in archive.segments.items() if base not in inventory.segments}
    found.leftovers = inventory.deleted + archive.deleted
    found.checkpoint = load_checkpoint(directory)
    if found.checkpoint is None and not inventory.segments and not archived:
        # New, or made just before a crash: nothing says that the directory itself has reached the disk.
        found.new_directories = [directory, os.path.dirname(directory)]
        found.segments = [Segment(directory, 0)]
        return found
    snapshot = (
        load_snapshot(directory) if found.checkpoint is None or found.checkpoint.has_producers else None
    )
    if was_clean and _take_over(found, snapshot, inventory.segments, archived):
        return found
    scan = _Scan(found, snapshot, files=files, epoch_max=leader_epoch, interval=interval, now_ms=now_ms)
    scan.run(inventory.segments, archived, inventory.deleted_bases)
    return found


def _take_over(
    found: Recovered, snapshot: Snapshot | None, local: dict[int, FileStamp], archived: dict[int, FileStamp]
) -> bool:
    """Believe the checkpoint, if every file is as it says; returns whether it was."""
    checkpoint = found.checkpoint
    if checkpoint is None or checkpoint.recovery_point != checkpoint.end_offset or not checkpoint.segments:
        return False
    local = dict(local)
    if not checkpoint.segments[-1].size:
        # A log that was never written to has no file yet.
        local.setdefault(checkpoint.segments[-1].base_offset, FileStamp(0, 0))
    if len(checkpoint.segments) != len(local) + len(archived):
        return False
    for entry in checkpoint.segments:
        stamp = (archived if entry.archived else local).get(entry.base_offset)
        if stamp is None or not _is_same(entry, stamp):
            return False
    if checkpoint.has_producers:
        if snapshot is None or snapshot.end_offset != checkpoint.end_offset:
            return False
        found.producers.restore(snapshot.producers)
    found.segments = [_from_entry(found, entry, is_archived=entry.archived) for entry in checkpoint.segments]
    found.epochs = LeaderEpochs(checkpoint.epochs)
    found.start_offset = checkpoint.start_offset
    found.end_offset = checkpoint.end_offset
    found.recovery_point = checkpoint.recovery_point
    found.cleaned_to = checkpoint.cleaned_to
    found.delete_horizon_ms = checkpoint.delete_horizon_ms
    return True


def _is_same(entry: SegmentEntry, stamp: FileStamp) -> bool:
    return entry.size == stamp.size and entry.modified_ns in (0, stamp.modified_ns)


def _from_entry(found: Recovered, entry: SegmentEntry, *, is_archived: bool) -> Segment:
    segment = Segment(found.archive_directory if is_archived else found.directory, entry.base_offset)
    segment.size = segment.unchecked_end = entry.size
    segment.next_offset = segment.unchecked_offset = entry.next_offset
    segment.max_timestamp = entry.max_timestamp
    segment.max_timestamp_offset = entry.max_timestamp_offset
    segment.first_append_ms = entry.first_append_ms
    segment.is_compacted = entry.compacted
    segment.is_archived = is_archived
    segment.modified_ns = entry.modified_ns
    segment.damaged = [Damage(d.position, d.end, d.first_offset, d.next_offset) for d in entry.damaged]
    return segment


class _Scan:
    """One recovery of one partition."""

    def __init__(
        self,
        found: Recovered,
        snapshot: Snapshot | None,
        *,
        files: OpenFiles,
        epoch_max: int,
        interval: int,
        now_ms: int,
    ) -> None:
        self._found = found
        self._files = files
        self._interval = interval
        self._now_ms = now_ms
        checkpoint = found.checkpoint or Checkpoint()
        self._checkpoint = checkpoint
        self._entries = {entry.base_offset: entry for entry in checkpoint.segments}
        self._known_epochs = LeaderEpochs(checkpoint.epochs)
        # A boot count below what the log has seen was lost with its file, and then nothing bounds the epochs.
        self._epoch_max = epoch_max if epoch_max >= self._known_epochs.latest >= 0 else _EPOCH_MAX
        self._snapshot = snapshot
        self._producers_from = snapshot.recovery_point if snapshot else 0
        """Batches from here on still have to be told to the producers' state."""
        if snapshot is None and found.checkpoint is not None and not checkpoint.has_producers:
            self._producers_from = checkpoint.recovery_point

    def run(self, local: dict[int, FileStamp], archived: dict[int, FileStamp], deleted: set[int]) -> None:
        found = self._found
        found.was_scanned = True
        found.epochs = LeaderEpochs(self._known_epochs)
        places = [(base, stamp, False) for base, stamp in local.items()]
        places += [(base, stamp, True) for base, stamp in archived.items()]
        places.sort()
        if self._snapshot is not None:
            found.producers.restore(self._snapshot.producers)
            found.producers.cut(self._producers_from)
        bases = [place[0] for place in places]
        for (base, stamp, is_archived), next_base in zip(places, [*bases[1:], NO_LIMIT], strict=False):
            found.segments.append(self._open(base, stamp, is_archived=is_archived, next_base=next_base))
        if not found.segments:
            found.segments.append(Segment(found.directory, self._checkpoint.end_offset))
        if found.segments[-1].is_archived:
            found.segments.append(Segment(found.directory, found.segments[-1].next_offset))
        self._note_missing(set(bases), deleted)
        self._conclude()

    def _conclude(self) -> None:
        found, checkpoint = self._found, self._checkpoint
        found.recovery_point = min(checkpoint.recovery_point, found.segments[-1].next_offset)
        found.end_offset = found.segments[-1].next_offset
        found.epochs.drop_from(found.end_offset)
        if self._producers_from > found.end_offset:
            found.producers.cut(found.end_offset)
        found.cleaned_to = min(checkpoint.cleaned_to, found.end_offset)
        found.delete_horizon_ms = checkpoint.delete_horizon_ms
        found.start_offset = max(checkpoint.start_offset, found.segments[0].base_offset)
        found.start_offset = min(found.start_offset, found.end_offset)

    def _open(self, base: int, stamp: FileStamp, *, is_archived: bool, next_base: int) -> Segment:
        entry = self._entries.get(base)
        is_last = next_base == NO_LIMIT
        vouched_to = min(self._checkpoint.recovery_point, self._producers_from, next_base)
        if entry is not None and entry.next_offset <= vouched_to:
            segment = _from_entry(self._found, entry, is_archived=is_archived)
            if not is_last and _is_same(entry, stamp) and entry.modified_ns:
                return segment
            if is_last and entry.size <= stamp.size and self._load_indexes(segment):
                # The active segment at the time of the checkpoint: only what was added since is scanned.
                return self._scan(segment, stamp.size, next_base)
        segment = Segment(self._found.archive_directory if is_archived else self._found.directory, base)
        segment.is_archived = is_archived
        # Compaction may have replaced a sealed segment after the checkpoint was written.
        segment.is_compacted = not is_last
        segment.modified_ns = 0 if is_last else stamp.modified_ns
        segment.first_append_ms = entry.first_append_ms if entry is not None else -1
        segment.start_indexes()
        return self._scan(segment, stamp.size, next_base)

    def _load_indexes(self, segment: Segment) -> bool:
        if not segment.size:
            segment.start_indexes()
            return True
        offsets = load_index(segment.path(INDEX_SUFFIX), OFFSET_KEY)
        times = load_index(segment.path(TIME_INDEX_SUFFIX), TIME_KEY)
        if offsets is None or times is None or not offsets[1] == times[1] == segment.size:
            return False
        segment.offsets, segment.times = offsets[0], times[0]
        segment.unindexed_bytes = segment.size - offsets[0].boundary_at(segment.size)
        return True

    def _scan(self, segment: Segment, size: int, next_base: int) -> Segment:
        """Check every batch from what is known of the segment to its end."""
        if size == segment.size:
            return self._end_tail(segment, None) if next_base == NO_LIMIT else segment
        fd = self._files.open(segment.file)
        if segment.first_append_ms < 0:
            segment.first_append_ms = int(os.fstat(fd).st_mtime * 1000)
        self._found.unsynced.append(segment)
        expect = Expectations(
            has_gaps=segment.is_compacted,
            epoch_max=self._epoch_max,
            offset_max=next_base,
            epochs=self._known_epochs,
            epochs_until=self._checkpoint.recovery_point,
        )
        reader = ChunkReader(fd, size)
        tail: Damage | None = None
        for found in checked_batches(reader, segment.size, segment.next_offset, expect):
            if isinstance(found, Damage):
                if found.next_offset < 0 and next_base == NO_LIMIT:
                    tail = found
                else:
                    self._keep(
                        segment, found if found.next_offset >= 0 else found._replace(next_offset=next_base)
                    )
                continue
            self._take(segment, found[1])
        if next_base == NO_LIMIT:
            return self._end_tail(segment, tail, reader)
        return segment

    def _take(self, segment: Segment, header: BatchHeader) -> None:
        segment.add(header.base_offset, header.next_offset, header.size, header.max_timestamp, self._interval)
        self._found.epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0 and header.base_offset >= self._producers_from:
            self._found.producers.add(header, header.base_offset, self._now_ms)

    def _keep(self, segment: Segment, damage: Damage) -> None:
        segment.add_damage(damage)
        segment.size = damage.end
        segment.next_offset = damage.next_offset

    def _end_tail(self, segment: Segment, tail: Damage | None, reader: ChunkReader | None = None) -> Segment:
        """Decide what becomes of the bytes behind the last intact batch of the log."""
        known = self._checkpoint.recovery_point
        if tail is None or reader is None:
            if segment.next_offset < known:
                self._keep(segment, Damage(segment.size, segment.size, segment.next_offset, known))
        elif tail.first_offset < known:
            self._keep(segment, tail._replace(next_offset=known))
        else:
            next_offset = _lost_offset(reader, tail, self._epoch_max)
            if next_offset is None:
                os.ftruncate(self._files.open(segment.file), tail.position)
            else:
                self._keep(segment, tail._replace(next_offset=next_offset))
        return segment

    def _note_missing(self, present: set[int], deleted: set[int]) -> None:
        """Offsets of segments whose files have vanished are lost, and a reader must hear of it."""
        segments = self._found.segments
        for entry in self._checkpoint.segments:
            if entry.base_offset in present or entry.base_offset in deleted or not entry.size:
                continue
            before = [s for s in segments if s.base_offset < entry.base_offset]
            if not before or entry.next_offset > segments[-1].base_offset:
                continue
            previous = before[-1]
            first = max(entry.base_offset, previous.next_offset)
            if first < entry.next_offset:
                previous.add_damage(Damage(previous.size, previous.size, first, entry.next_offset))


def _lost_offset(reader: ChunkReader, tail: Damage, epoch_max: int) -> int | None:
    """Where offsets go on behind a damaged last batch; None for a torn one, which was never acknowledged.

    A write that was cut short leaves a part of a batch, or sectors of zeros in it. A batch that is all there
    but for some wrong bits is another thing: it may have been synced and acknowledged, so its offsets are
    never given again.
    """
    size = tail.end - tail.position
    if size < HEADER_SIZE:
        return None
    chunk, index = reader.at(tail.position, HEADER_SIZE)
    try:
        header = read_header(chunk, index)
    except CorruptBatch:
        header = BatchHeader._make(_RAW_HEADER.unpack_from(chunk, index))
    next_offset = tail.first_offset + _record_count(header, size)
    ends = {tail.end, tail.position + header.size} if HEADER_SIZE <= header.size <= size else {tail.end}
    if any(reader.crc(tail.position + _CRC_FROM, end) == header.crc for end in ends):
        return next_offset  # intact but for a field that the CRC doesn't cover
    is_whole = (
        header.magic == MAGIC
        and header.base_offset == tail.first_offset
        and 0 <= header.leader_epoch <= epoch_max
        and HEADER_SIZE <= header.size <= size
    )
    if is_whole and not _has_blank_sector(reader, tail.position, tail.end):
        return next_offset
    return None


def _record_count(header: BatchHeader, size: int) -> int:
    """How many offsets a damaged batch took: its two counts should agree; rather too many than too few."""
    count_max = _RECORDS_MAX if header.compression else (size - HEADER_SIZE) // RECORD_SIZE_MIN
    counts = (header.record_count, header.last_offset_delta + 1)
    return max((count for count in counts if 0 < count <= count_max), default=1)


def _has_blank_sector(reader: ChunkReader, start: int, end: int) -> bool:
    """Whether some sector's share of [start, end) is blank, or begins or ends so, as one half written does."""
    blank = bytes(_ZEROS_MIN)
    while start < end:
        stop = min(end, start - start % _SECTOR_BYTES + _SECTOR_BYTES)
        chunk, index = reader.at(start, stop - start)
        share = chunk[index : index + stop - start]
        if share.startswith(blank) or share.endswith(blank) or (len(share) > 1 and not any(share)):
            return True
        start = stop
    return False
