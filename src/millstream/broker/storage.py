"""Where partitions live on disk, and whether it takes more.

Why: every log of the node is opened with the same files, epoch, clock and flusher; and when the disk fills,
producers must hear of it before the internal topics have no room to record progress.
Invariants: `writable` is only about producers; commits, the catalog and retention go on.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millstream.log.datadir import remove_tree
from millstream.log.files import OpenFiles
from millstream.log.flusher import Flusher
from millstream.log.partition import PartitionLog
from millstream.model.clock import Clock
from millstream.model.topic_config import TopicConfig
from millstream.model.topics import TopicPartition

RESERVE_SHARE_MAX = 0.05
"""On a small disk the reserve is at most this share of it, or nothing could ever be written."""


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
    reserve_bytes: int
    discard: Callable[[list[Path]], None] = remove_now
    """What to do with directories of deleted partitions; the node gives them to its janitor."""
    is_full: bool = False

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

    def directory(self, name: TopicPartition) -> Path:
        return self.data / "topics" / str(name)

    def check_space(self) -> bool:
        """Look at the disk; returns whether producers may write. Called every second."""
        usage = os.statvfs(self.data)
        free = usage.f_bavail * usage.f_frsize
        reserve = min(self.reserve_bytes, int(usage.f_blocks * usage.f_frsize * RESERVE_SHARE_MAX))
        self.is_full = free < reserve
        return not self.is_full

    def usage(self) -> tuple[int, int]:
        """(total, usable) bytes of the disk."""
        usage = os.statvfs(self.data)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize
