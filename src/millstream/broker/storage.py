"""Where partitions live on disk, and whether it takes more.

Why: every log of the node is opened with the same files, epoch, clock and flusher; and when the disk fills,
producers must hear of it before the internal topics have no room to record progress.
Invariants: `is_full` is only about producers; commits, the catalog and retention go on. For a disk that others have
filled to the last byte there is a reserve: a file that is given up when an internal topic finds no room, and made
again when there is space.
"""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millstream.codec.records import Record
from millstream.log.datadir import RESERVE_BYTES, SpaceReserve, remove_tree
from millstream.log.errors import DiskFull, LogIOError
from millstream.log.files import OpenFiles
from millstream.log.flusher import Flusher
from millstream.log.partition import PartitionLog
from millstream.model.clock import Clock
from millstream.model.topic_config import TopicConfig
from millstream.model.topics import TopicPartition

LOW_WATER_SHARE_MAX = 0.05
"""On a small disk the low-water mark is at most this share of it, or nothing could ever be written."""

logger = logging.getLogger(__name__)


def remove_now(paths: list[Path]) -> None:
    for path in paths:
        remove_tree(path)


@dataclass(slots=True, kw_only=True)
class Storage:
    data: Path
    archive: Path
    files: OpenFiles
    flusher: Flusher
    clock: Clock
    leader_epoch: int
    was_clean: bool
    low_water_bytes: int
    reserve: SpaceReserve
    discard: Callable[[list[Path]], None] = remove_now
    """What to do with directories of deleted partitions; the node gives them to its janitor."""
    is_full: bool = False
    """Whether producers are refused."""
    failure: OSError | None = None
    """A sync that failed: nothing that is written from now on can be trusted to last."""

    def open_log(
        self, name: TopicPartition, config: TopicConfig, *, start_offset_min: int = 0
    ) -> PartitionLog:
        return PartitionLog.open(
            self.directory(name),
            topic_partition=name,
            config=config,
            leader_epoch=self.leader_epoch,
            files=self.files,
            archive_directory=self.archive / str(name),
            clock=self.clock,
            was_clean=self.was_clean,
            start_offset_min=start_offset_min,
        )

    @property
    def topics(self) -> Path:
        return self.data / "topics"

    def directory(self, name: TopicPartition) -> Path:
        return self.topics / str(name)

    def append_to_internal(self, log: PartitionLog, records: Sequence[Record], now_ms: int) -> int:
        """Append what has to be kept even on a full disk, and give up the reserve for it if need be."""
        try:
            return log.append_records(records, now_ms)
        except DiskFull:
            if not self.reserve.is_held:
                raise
            self.reserve.release()
            self.is_full = True  # what was set free is not for producers
            logger.warning("the disk is full: the reserve was given up, so that offsets can be committed")
            return log.append_records(records, now_ms)

    def check_space(self) -> bool:
        """Look at the disk; returns whether producers may write. Called every second."""
        total, free = self.usage()
        low_water = min(self.low_water_bytes, int(total * LOW_WATER_SHARE_MAX))
        self.is_full = free < low_water or self.failure is not None
        if not self.is_full and free > low_water + RESERVE_BYTES:
            with suppress(OSError):  # it is tried again in a second
                self.reserve.hold()
        return not self.is_full

    def fail(self, error: OSError) -> None:
        """A sync has failed: take nothing more from producers."""
        self.failure = error
        self.is_full = True

    def refusal(self, partition: TopicPartition) -> DiskFull | LogIOError:
        """Why producers are refused."""
        if self.failure is not None:
            return LogIOError(self.directory(partition), self.failure)
        return DiskFull(partition, f"{self.usage()[1]} bytes are free")

    def usage(self) -> tuple[int, int]:
        """(total, usable) bytes of the disk."""
        usage = os.statvfs(self.data)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize
