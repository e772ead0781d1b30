"""The growing half of a partition's log: appending, rolling, syncing, remembering.

Why: everything that changes a log on the hot path is here, apart from what reads or shrinks it.
Invariants: an append that fails has changed nothing, on disk too; offsets are given once and never again, even
if what they named was lost; the active segment is the last, and its name alone says at which offset it starts,
so a roll comes before whatever doesn't follow from the bytes before it.
A log never syncs on its own while it serves: `begin_sync` and `end_sync` let the flusher do it elsewhere, and
only `advance` moves the high watermark.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from millstream.codec.batch import HEADER_SIZE, BatchHeader, WritableBuffer, assign, read_header
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import Record, encode_batch
from millstream.log.archive import ArchiveCopy
from millstream.log.checkpoint import Checkpoint, Snapshot, save_checkpoint, save_snapshot
from millstream.log.errors import DiskFull, LogIOError, TooManyOpenFiles
from millstream.log.files import OpenFiles, SegmentFile, fdatasync, sync_directory
from millstream.log.reading import SegmentReader
from millstream.log.recovery import Recovered, entry_of
from millstream.log.segment import RELATIVE_OFFSET_MAX, Segment
from millstream.model.clock import Clock
from millstream.model.topic_config import INT64_MAX, TopicConfig
from millstream.model.topics import TopicPartition

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SyncMark(NamedTuple):
    """What has to reach the disk before everything below `end_offset` is safe."""

    end_offset: int
    fds: list[int]
    directories: list[str]
    segments: list[Segment]
    sizes: list[int]
    """How much of each segment was written when it was handed out."""


class WritableLog:
    __slots__ = (
        "_active",
        "_archive_directory",
        "_bases",
        "_clock",
        "_config",
        "_copies",
        "_copying",
        "_delete_horizon_ms",
        "_directory",
        "_doomed",
        "_files",
        "_first_timestamp",
        "_has_remains",
        "_is_checkpoint_due",
        "_is_closed",
        "_is_writing",
        "_new_directories",
        "_reader",
        "_roll_at_ms",
        "_roll_past_timestamp",
        "_saved",
        "_sealed_unsynced",
        "_segments",
        "_synced_position",
        "cleaned_to",
        "end_offset",
        "epochs",
        "high_watermark",
        "leader_epoch",
        "on_advance",
        "producers",
        "recovery_point",
        "size_bytes",
        "start_offset",
        "topic_partition",
        "unsynced_records",
    )

    def __init__(
        self,
        found: Recovered,
        *,
        topic_partition: TopicPartition,
        config: TopicConfig,
        leader_epoch: int,
        files: OpenFiles,
        clock: Clock,
    ) -> None:
        """Use `PartitionLog.open`."""
        self.topic_partition = topic_partition
        self._config = config
        self._files = files
        self._clock = clock
        self._directory = found.directory
        self._archive_directory = found.archive_directory
        self._segments = found.segments
        self._bases = [segment.base_offset for segment in found.segments]
        self._active = found.segments[-1]
        self.start_offset = found.start_offset
        self.end_offset = found.end_offset
        self.high_watermark = found.end_offset
        self.recovery_point = found.recovery_point
        self.cleaned_to = found.cleaned_to
        self._delete_horizon_ms = found.delete_horizon_ms
        self._doomed = found.leftovers
        self._copies: list[ArchiveCopy] = []
        self._copying: set[int] = set()
        self.size_bytes = sum(segment.size for segment in found.segments)
        self.producers = found.producers
        self.epochs = found.epochs
        # The node's boot count may have been lost with its file; epochs never go backwards all the same.
        self.leader_epoch = max(leader_epoch, found.epochs.latest)
        self._reader = SegmentReader(files, found.epochs)
        self.on_advance: Callable[[], None] | None = None
        self.unsynced_records = 0
        self._sealed_unsynced = [s for s in found.unsynced if s is not self._active and s.size]
        self._synced_position = 0 if self._active in found.unsynced else self._active.size
        self._new_directories: list[str] = found.new_directories
        self._is_writing = False
        self._has_remains = False
        self._is_closed = False
        self._is_checkpoint_due = False
        """A segment was sealed: once it is synced, the next start need not scan it."""
        self._saved: Checkpoint | None = found.checkpoint
        self._roll_at_ms = 0
        self._first_timestamp = -1
        """Of the active segment's first batch, once this process has appended."""
        self._roll_past_timestamp = INT64_MAX
        self._schedule_roll()

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self._schedule_roll()

    @property
    def directory(self) -> Path:
        return Path(self._directory)

    # --- the way in

    def append(self, batch: WritableBuffer, header: BatchHeader) -> int:
        """Write one batch behind all others; returns the offset its first record got.

        The caller has checked the batch and its sequence. Its offset and epoch are set in place. Nothing is
        synced and the high watermark stays: hand the log to the flusher. Raises DiskFull or LogIOError, and
        then nothing has changed.
        """
        size = header.length + 12
        base_offset = self.end_offset
        next_offset = base_offset + header.last_offset_delta + 1
        segment = self._active
        config = self._config
        if not self._is_writing:
            self._start_writing()
            segment = self._active
        position = segment.size
        if position and (
            position + size > config.segment_bytes
            or self._clock.monotonic_ms() >= self._roll_at_ms
            or header.max_timestamp > self._roll_past_timestamp
            or next_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.index_is_full(config.segment_index_bytes)
        ):
            self.roll()
            segment = self._active
            position = 0
        assign(batch, 0, base_offset=base_offset, leader_epoch=self.leader_epoch)
        file = segment.file
        file.is_recent = True
        fd = file.fd
        if fd < 0:
            fd = self._open_active()
        try:
            written = os.pwrite(fd, batch, position)
        except OSError as error:
            raise self._undo(fd, position, error) from error
        if written != size:
            self._write_rest(fd, batch, position, written, size)
        if not position:
            segment.first_append_ms = self._clock.now_ms()
            self._first_timestamp = header.max_timestamp
            self._schedule_roll()
        segment.add(base_offset, next_offset, size, header.max_timestamp, config.index_interval_bytes)
        if header.producer_id >= 0:
            self.producers.add(header, base_offset, self._clock.now_ms())
        self.end_offset = next_offset
        self.size_bytes += size
        self.unsynced_records += next_offset - base_offset
        return base_offset

    def append_records(self, records: Sequence[Record], now_ms: int) -> int:
        """Append records as one batch, for internal topics. Their offsets count from 0; -1 is `now_ms`."""
        stamped = [
            record if record.timestamp_ms >= 0 else replace(record, timestamp_ms=now_ms) for record in records
        ]
        batch = encode_batch(stamped)
        return self.append(batch, read_header(batch))

    def roll(self) -> None:
        """Seal the active segment and start the next one at the end offset.

        The sealed one is synced with the flusher's next round, and nothing behind it counts before.
        """
        old = self._active
        if old.base_offset == self.end_offset:
            return
        new = Segment(self._directory, self.end_offset)
        new.start_indexes()
        self._create(new)
        with suppress(OSError):  # indexes can be rebuilt; a full disk is no reason to refuse the roll
            old.save_indexes()
        self._stamp(old)
        if old.size > self._synced_position:
            self._sealed_unsynced.append(old)
        self._segments.append(new)
        self._bases.append(new.base_offset)
        self._active = new
        self._synced_position = 0
        self._is_checkpoint_due = True
        self._files.keep_indexes(old)
        self._first_timestamp = -1
        self._schedule_roll()

    def roll_if_due(self, now_ms: int) -> bool:
        """Seal an active segment that is too old, though nothing is appended; returns whether it was."""
        if not self._active.size or self._clock.monotonic_ms() < self._roll_at_ms:
            return False
        self.roll()
        return True

    # --- safety

    @property
    def has_sealed_unsynced(self) -> bool:
        return bool(self._sealed_unsynced)

    def begin_sync(self, *, sealed_only: bool = False) -> SyncMark:
        """What must be synced for all (or all sealed) bytes to be safe. Its files stay open until `end_sync`."""
        if self._is_closed:
            return SyncMark(self.high_watermark, [], [], [], [])
        segments = list(self._sealed_unsynced)
        active = self._active
        end_offset = active.base_offset
        if not sealed_only:
            end_offset = self.end_offset
            if active.size > self._synced_position:
                segments.append(active)
        fds: list[int] = []
        try:
            for segment in segments:
                fds.append(self._files.pin(segment.file))
        except (OSError, TooManyOpenFiles) as error:
            for segment in segments[: len(fds)]:
                self._files.unpin(segment.file)
            if isinstance(error, OSError):
                raise LogIOError(self._directory, error) from error
            raise
        sizes = [segment.size for segment in segments]
        return SyncMark(end_offset, fds, list(self._new_directories), segments, sizes)

    def end_sync(self, mark: SyncMark) -> None:
        """Everything in `mark` is on disk."""
        for segment in mark.segments:
            self._files.unpin(segment.file)
        if self._is_closed:
            return
        if mark.directories:
            self._new_directories = [d for d in self._new_directories if d not in mark.directories]
        self.recovery_point = max(self.recovery_point, mark.end_offset)
        self.unsynced_records = self.end_offset - self.recovery_point
        for segment, size in zip(mark.segments, mark.sizes, strict=True):
            if segment is self._active:
                self._synced_position = size
                segment.hint(mark.end_offset, size)
            elif segment.size == size and segment in self._sealed_unsynced:
                self._sealed_unsynced.remove(segment)  # one that grew before it was sealed stays
        if self._is_checkpoint_due and not self._sealed_unsynced:
            self._is_checkpoint_due = False
            with suppress(OSError):
                self.checkpoint()

    def advance(self, end_offset: int) -> None:
        """Everything below `end_offset` may be served. Never moves backwards."""
        if end_offset > self.high_watermark:
            self.high_watermark = end_offset
            if self.on_advance is not None:
                self.on_advance()

    # --- saving and closing

    def checkpoint(self) -> None:
        """Remember what a start would otherwise have to scan. Cheap when nothing changed."""
        current = self._checkpoint_now()
        if current == self._saved:
            return
        if self._active.size and self._active.offsets is not None:
            with suppress(OSError):
                self._active.save_indexes()
        if current.has_producers:
            snapshot = Snapshot(
                end_offset=self.end_offset,
                recovery_point=self.recovery_point,
                producers=self.producers.entries(),
            )
            save_snapshot(self._directory, snapshot)
        self._save_checkpoint(current)

    def close(self, *, clean: bool = True) -> None:
        """Stop using the files. `clean` syncs and remembers everything, so that the next start needs no scan."""
        if self._is_closed:
            return
        if clean:
            self._sync_now()
            self._stamp(self._active)
            self.checkpoint()
        self._is_closed = True
        for segment in self._segments:
            self._files.close(segment.file)

    def _checkpoint_now(self) -> Checkpoint:
        # A boot that writes nothing leaves no trace, so that idle logs cost nothing at a stop.
        epochs = tuple(entry for entry in self.epochs if entry[1] < self.end_offset or self._is_writing)
        return Checkpoint(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            recovery_point=self.recovery_point,
            cleaned_to=self.cleaned_to,
            delete_horizon_ms=self._delete_horizon_ms,
            epochs=epochs,
            has_producers=len(self.producers) > 0,
            segments=tuple(entry_of(segment) for segment in self._segments),
        )

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        save_checkpoint(self._directory, checkpoint)
        self._saved = checkpoint

    def _stamp(self, segment: Segment) -> None:
        """The segment won't be written to any more: note by what its file is known again."""
        with suppress(OSError):
            segment.modified_ns = os.stat(segment.file.path).st_mtime_ns

    def _sync_now(self) -> None:
        mark = self.begin_sync()
        for fd in mark.fds:
            fdatasync(fd)
        for directory in mark.directories:
            sync_directory(directory)
        self.end_sync(mark)

    def _start_writing(self) -> None:
        """Before this process first appends: load the indexes, and note its epoch."""
        segment = self._active
        if self._has_remains:
            self._take_back_remains(segment)
        has_damaged_end = bool(segment.damaged) and segment.damaged[-1].next_offset == segment.next_offset
        if has_damaged_end or segment.next_offset != self.end_offset:
            # The next batch doesn't follow from the bytes before it: only a new segment's name can say so.
            self.roll()
        elif segment.size:
            offsets = self._reader.load_offsets(segment)
            self._reader.load_times(segment)
            self._files.release_indexes(segment)
            segment.unindexed_bytes = segment.size - offsets.boundary_at(segment.size)
            with suppress(CorruptBatch):  # damaged: then the clock alone decides when to roll
                first = read_header(os.pread(self._open(segment.file), HEADER_SIZE, 0))
                self._first_timestamp = first.max_timestamp
            self._schedule_roll()
        elif segment.offsets is None:
            segment.start_indexes()
        self._is_writing = True
        self._active.modified_ns = 0
        with suppress(OSError):  # it only helps recovery to tell a damaged epoch from a real one
            self._save_checkpoint(self._checkpoint_now())

    def _open_active(self) -> int:
        segment = self._active
        if segment.size or os.path.exists(segment.file.path):
            return self._open(segment.file)
        return self._create(segment)

    def _open(self, file: SegmentFile) -> int:
        try:
            return self._files.open(file)
        except OSError as error:
            raise LogIOError(file.path, error) from error

    def _create(self, segment: Segment) -> int:
        try:
            fd = self._files.open(segment.file, create=True)
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise DiskFull(self.topic_partition, os.strerror(error.errno)) from error
            raise LogIOError(segment.file.path, error) from error
        if self._directory not in self._new_directories:
            self._new_directories.append(self._directory)
        return fd

    def _write_rest(self, fd: int, batch: WritableBuffer, position: int, written: int, size: int) -> None:
        rest = memoryview(batch)[written:size]
        place = position + written
        try:
            while rest:
                count = os.pwrite(fd, rest, place)
                if not count:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                place += count
                rest = rest[count:]
        except OSError as error:
            raise self._undo(fd, position, error) from error

    def _undo(self, fd: int, position: int, error: OSError) -> DiskFull | LogIOError:
        """Take back what a failed append has written; returns the error to raise."""
        try:
            os.ftruncate(fd, position)
        except OSError as second:
            # Remains of a batch would end up behind shorter ones: take them back before the next append.
            self._is_writing = False
            self._has_remains = True
            return LogIOError(self._active.file.path, second)
        if error.errno in _NO_SPACE:
            return DiskFull(self.topic_partition, os.strerror(error.errno))
        return LogIOError(self._active.file.path, error)

    def _take_back_remains(self, segment: Segment) -> None:
        try:
            os.ftruncate(self._files.open(segment.file), segment.size)
        except OSError as error:
            raise LogIOError(segment.file.path, error) from error
        self._has_remains = False

    def _schedule_roll(self) -> None:
        """When the active segment is too old, by the clock that never jumps."""
        segment = self._active
        age_ms = max(0, self._clock.now_ms() - segment.first_append_ms) if segment.first_append_ms >= 0 else 0
        jitter_ms = self._config.segment_jitter_ms
        if jitter_ms:
            jitter_ms = crc32(segment.file.path.encode()) % (min(jitter_ms, self._config.segment_ms) + 1)
        self._roll_at_ms = self._clock.monotonic_ms() + self._config.segment_ms - jitter_ms - age_ms
        # Records of the past that are written now must not share a segment with younger ones, or they
        # would outlive their retention.
        self._roll_past_timestamp = INT64_MAX
        if self._first_timestamp >= 0:
            self._roll_past_timestamp = self._first_timestamp + self._config.segment_ms - jitter_ms
