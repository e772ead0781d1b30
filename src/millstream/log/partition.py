"""One partition's log: append at one end, read anywhere, drop at the other end.

Why: this is the spine; every record of the system passes through `append` and `read`.
Invariants: start_offset <= high_watermark <= end_offset; what lies below the high watermark is as safe as
`log.fsync` promises; segments are in offset order, archived ones first, then sealed ones, then the active one;
what is dropped is only renamed here, and unlinked by whoever is handed the paths: `expire`, `destroy`,
`apply_compaction` and `finish_archive_copy` return them.
One thread owns a log. What would keep it waiting is done elsewhere, in two steps: `begin_sync` and `end_sync`
around the flusher's work, `compaction_plan` and `apply_compaction` around the compactor's, `take_archive_copies`
and `finish_archive_copy` (or `abandon_archive_copy`) around a copy to another device.
"""

import os
from bisect import bisect_right
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from millstream.log.archive import ArchiveCopy, move_segment, settle_in_archive
from millstream.log.cleaning import discard, plan_compaction, sources_of, swap_in
from millstream.log.compaction import CompactionPlan, CompactionResult
from millstream.log.errors import CorruptRange, DiskFull, LogIOError, OffsetOutOfRange
from millstream.log.files import OpenFiles, sync_directory
from millstream.log.inventory import DELETED_SUFFIX, set_aside
from millstream.log.lookup import TimeLookup, TimestampOffset
from millstream.log.reading import EMPTY, ReadResult
from millstream.log.recovery import Recovered, recover
from millstream.log.retention import RetentionPolicy, expired_segments, is_too_old, segments_below
from millstream.log.segment import Segment
from millstream.log.writing import SyncMark, WritableLog
from millstream.model.clock import Clock
from millstream.model.topic_config import TopicConfig
from millstream.model.topics import TopicPartition

__all__ = ["PartitionLog", "ReadResult", "SyncMark", "TimestampOffset"]


class PartitionLog(WritableLog):
    __slots__ = ()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        topic_partition: TopicPartition,
        config: TopicConfig,
        leader_epoch: int,
        files: OpenFiles,
        archive_directory: Path,
        clock: Clock,
        was_clean: bool,
        start_offset_min: int = 0,
    ) -> "PartitionLog":
        """The log in `directory`, made if there is none.

        `archive_directory` is this partition's own. Without `was_clean`, what was not synced for certain is
        scanned. `start_offset_min` is a log start that was made durable elsewhere. Raises LogIOError.
        """
        try:
            found = recover(
                str(directory),
                str(archive_directory),
                partition=topic_partition,
                leader_epoch=leader_epoch,
                files=files,
                was_clean=was_clean,
                interval=config.index_interval_bytes,
                now_ms=clock.now_ms(),
            )
            log = cls(
                found,
                topic_partition=topic_partition,
                config=config,
                leader_epoch=leader_epoch,
                files=files,
                clock=clock,
            )
            log._settle(found, start_offset_min)
        except OSError as error:
            raise LogIOError(directory, error) from error
        return log

    def _settle(self, found: Recovered, start_offset_min: int) -> None:
        """Bring a log that was just opened into a state that the next start can rely on."""
        self.start_offset = max(self.start_offset, start_offset_min)
        if self.start_offset > self.end_offset:
            # What was deleted had been written, and was lost since: its offsets are never given again.
            self.end_offset = self.high_watermark = self.start_offset
        self.epochs.assign(self.leader_epoch, self.end_offset)
        if found.was_scanned:
            self._sync_now()
            with suppress(OSError):
                self.checkpoint()

    # --- the way out

    def read(self, offset: int, size_max: int, *, limit: int, min_one: bool = True) -> ReadResult:
        """Whole batches from the one that holds `offset` on, of at most `size_max` bytes in all.

        Ends before `limit`, which is a batch boundary. With `min_one` the first batch is returned whatever
        its size. Raises OffsetOutOfRange, CorruptRange, LogIOError. The buffers stay valid for as long as
        they are held.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                self.topic_partition, requested=offset, first=self.start_offset, end=self.end_offset
            )
        if offset >= limit:
            return EMPTY
        segment = self._active
        row = len(self._segments) - 1
        if offset < segment.base_offset:
            row = bisect_right(self._bases, offset) - 1
            segment = self._segments[max(0, row)]
        try:
            while True:
                result = self._reader.read(segment, offset, size_max, limit, min_one=min_one)
                if segment.damaged:
                    self._refuse_damaged(segment, offset)
                if result is not None:
                    return result
                row += 1
                if row >= len(self._segments) or self._segments[row].base_offset >= limit:
                    return EMPTY
                segment = self._segments[row]
        except OSError as error:
            raise LogIOError(segment.file.path, error) from error

    def _refuse_damaged(self, segment: Segment, offset: int) -> None:
        for damage in segment.damaged:
            if damage.first_offset <= offset < damage.next_offset:
                raise CorruptRange(
                    self.topic_partition, first_offset=damage.first_offset, next_offset=damage.next_offset
                )

    def offset_for_timestamp(self, timestamp_ms: int, *, limit: int) -> TimestampOffset | None:
        """The first record below `limit` whose timestamp is at least `timestamp_ms`."""
        try:
            return self._times(limit).first_at_or_after(timestamp_ms)
        except OSError as error:
            raise LogIOError(self._directory, error) from error

    def max_timestamp_offset(self, limit: int) -> TimestampOffset | None:
        """The first record with the largest timestamp below `limit`."""
        try:
            return self._times(limit).newest()
        except OSError as error:
            raise LogIOError(self._directory, error) from error

    def _times(self, limit: int) -> TimeLookup:
        return TimeLookup(self._segments, self._reader, self._files, start=self.start_offset, limit=limit)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """(largest epoch not above the asked one, the offset where it ended); (-1, -1) if unknown."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, or of the one to come there."""
        return self.epochs.epoch_of(offset)

    # --- what goes

    def delete_before(self, offset: int) -> None:
        """Make `offset` the first readable one. Whole segments below it go; the caller has made it durable."""
        offset = min(offset, self.high_watermark)
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        if offset == self.end_offset:
            with suppress(DiskFull):  # then the active segment stays until there is room for another
                self.roll()
        self._drop(segments_below(self._segments, offset))
        self.epochs.drop_before(offset)
        with suppress(OSError):
            self.checkpoint()

    def expire(self, now_ms: int) -> list[Path]:
        """Drop or archive what retention no longer keeps; returns files to unlink after file.delete.delay.ms.

        Segments for an archive on another device stay until `finish_archive_copy`.
        """
        config = self._config
        self._drop(segments_below(self._segments, self.start_offset))
        if config.deletes:
            local = [segment for segment in self._segments if not segment.is_archived]
            policy = RetentionPolicy(age_ms_max=config.retention_ms, size_bytes_max=config.retention_bytes)
            expired = expired_segments(local, policy, now_ms=now_ms, high_watermark=self.high_watermark)
            if expired and expired[-1] is self._active:
                expired = self._roll_away(expired)
            if config.millstream_archive_enable:
                self._archive(expired)
            else:
                self._drop(expired)
        archive_ms_max = config.millstream_archive_retention_ms
        archived = [segment for segment in self._segments if segment.is_archived]
        self._drop(list(takewhile(lambda s: is_too_old(s, archive_ms_max, now_ms=now_ms), archived)))
        if self._segments[0].base_offset > self.start_offset:
            self.start_offset = self._segments[0].base_offset
            self.epochs.drop_before(self.start_offset)
        doomed, self._doomed = self._doomed, []
        if doomed:
            with suppress(OSError):
                self.checkpoint()
        return [Path(path) for path in doomed]

    def take_archive_copies(self) -> list[ArchiveCopy]:
        """Copies to another device that `expire` asked for: run each in a thread, then finish it here."""
        copies, self._copies = self._copies, []
        return copies

    def finish_archive_copy(self, copy: ArchiveCopy) -> list[Path]:
        """The copy is complete: read the segment from there; returns the local files to unlink later."""
        self._copying.discard(copy.base_offset)
        for segment in self._segments:
            if segment.base_offset == copy.base_offset and not segment.is_archived:
                self._files.close(segment.file)
                doomed = set_aside(segment.directory, segment.base_offset)
                settle_in_archive(segment, copy.target)
                return [Path(path) for path in doomed]
        return []

    def abandon_archive_copy(self, copy: ArchiveCopy) -> None:
        """The copy failed: the segment stays, and is tried again when it next expires."""
        self._copying.discard(copy.base_offset)

    def compaction_plan(self, now_ms: int) -> CompactionPlan | None:
        """What to compact now, if it is worth it."""
        if not self._config.compacts:
            return None
        return plan_compaction(
            [segment for segment in self._segments[:-1] if not segment.is_archived],
            self._config,
            self.producers,
            cleaned_to=self.cleaned_to,
            delete_horizon_ms=self._delete_horizon_ms,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )

    def apply_compaction(self, plan: CompactionPlan, result: CompactionResult) -> list[Path]:
        """Let the compacted segments take their places; returns files to unlink after file.delete.delay.ms."""
        doomed: list[str] = []
        is_complete = True
        for compacted in result.segments:
            sources = sources_of(compacted, self._segments, plan)
            if sources is None or self._is_closed:
                discard(compacted, plan.directory)
                is_complete = False
                continue
            segment, replaced = swap_in(compacted, sources)
            doomed += replaced
            row = self._segments.index(sources[0])
            self._segments[row : row + len(sources)] = [segment]
            for source in sources:
                self._forget(source)
        if is_complete:
            self.cleaned_to = max(self.cleaned_to, result.cleaned_to)
            horizon_ms = result.next_delete_horizon_ms
            self._delete_horizon_ms = -1 if horizon_ms is None else horizon_ms
        self._recount()
        with suppress(OSError):
            self.checkpoint()
        return [Path(path) for path in doomed]

    def destroy(self) -> list[Path]:
        """Give up the log and all it holds; returns the directories to remove."""
        self.close(clean=False)
        doomed: list[Path] = []
        # The archive first: what is left here after a crash is known to belong to no topic, but an archive
        # would become part of the next topic of this name.
        for directory in (self._archive_directory, self._directory):
            number = self._clock.now_ms()
            while os.path.exists(target := f"{directory}.{self.leader_epoch}-{number}{DELETED_SUFFIX}"):
                number += 1
            with suppress(FileNotFoundError):
                os.rename(directory, target)
                doomed.append(Path(target))
        return doomed

    def _roll_away(self, expired: list[Segment]) -> list[Segment]:
        """Even the active segment is to go: start another first, whose name keeps the end offset."""
        try:
            self.roll()
            sync_directory(self._directory)
        except (DiskFull, OSError):
            return expired[:-1]
        return expired

    def _archive(self, expired: list[Segment]) -> None:
        for segment in expired:
            if segment.base_offset in self._copying:
                return
            try:
                copy = move_segment(segment, self._archive_directory)
            except OSError as error:
                raise LogIOError(self._archive_directory, error) from error
            if copy is not None:
                self._copying.add(segment.base_offset)
                self._copies.append(copy)
                return  # one at a time, so that archived segments are always the leading ones

    def _drop(self, segments: list[Segment]) -> None:
        """Take segments out of the log; their files are set aside."""
        for segment in segments:
            self._segments.remove(segment)
            self._forget(segment)
            self._doomed += set_aside(segment.directory, segment.base_offset)
        if segments:
            self._recount()

    def _forget(self, segment: Segment) -> None:
        self._files.close(segment.file)
        self._files.release_indexes(segment)
        if segment in self._sealed_unsynced:
            self._sealed_unsynced.remove(segment)

    def _recount(self) -> None:
        self._bases = [segment.base_offset for segment in self._segments]
        self.size_bytes = sum(segment.size for segment in self._segments)
