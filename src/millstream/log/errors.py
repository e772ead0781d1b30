"""What can go wrong with a partition log.

Why: the broker answers by class, a person reads the sentence; neither has to know the other.
Invariants: each error carries its values as attributes; wire codes are given elsewhere, in one table.
"""

from pathlib import Path

from millstream.model.errors import BadRequest, CorruptData, MillstreamError, TryAgain
from millstream.model.topics import TopicPartition


class OffsetOutOfRange(BadRequest):
    def __init__(self, partition: TopicPartition, *, requested: int, first: int, end: int) -> None:
        super().__init__(
            f"{partition}: offset {requested} is outside [{first}, {end}). "
            "Seek to the first offset, or raise retention if it expired too soon."
        )
        self.partition = partition
        self.requested = requested
        self.first = first
        self.end = end


class CorruptRange(CorruptData):
    """A read at bytes that are not what was written. What lies behind `next_offset` is readable."""

    def __init__(self, partition: TopicPartition, *, first_offset: int, next_offset: int) -> None:
        super().__init__(
            f"{partition}: offsets {first_offset} to {next_offset - 1} are damaged on disk. "
            f"Restore the segment from a backup, or seek to {next_offset} to go on without them."
        )
        self.partition = partition
        self.first_offset = first_offset
        self.next_offset = next_offset


class DiskFull(TryAgain):
    """No room for the batch. Nothing was changed; the same append may succeed once there is room."""

    def __init__(self, partition: TopicPartition, reason: str) -> None:
        super().__init__(
            f"{partition}: no room on disk ({reason}). Free some space, or lower retention.ms or retention.bytes."
        )
        self.partition = partition
        self.reason = reason


class LogIOError(MillstreamError):
    """The operating system could not read or write a file of the log. Nothing was appended."""

    def __init__(self, path: Path | str, error: OSError) -> None:
        super().__init__(
            f"{path}: {error.strerror or error}. Check the disk and the permissions of this file."
        )
        self.path = Path(path)
        self.errno = error.errno


class TooManyOpenFiles(TryAgain):
    def __init__(self, path: Path | str) -> None:
        super().__init__(
            f"{path}: the process has no file descriptors left. Raise `ulimit -n`, or lower log.open.files.max."
        )
        self.path = Path(path)


class OutOfOrderSequence(BadRequest):
    def __init__(self, partition: TopicPartition, *, producer_id: int, expected: int, found: int) -> None:
        super().__init__(
            f"{partition}: producer {producer_id} sent sequence {found} where {expected} comes next. "
            "A batch before it was lost: start the producer again with a new epoch."
        )
        self.partition = partition
        self.producer_id = producer_id
        self.expected = expected
        self.found = found


class InvalidProducerEpoch(BadRequest):
    def __init__(self, partition: TopicPartition, *, producer_id: int, current: int, found: int) -> None:
        super().__init__(
            f"{partition}: producer {producer_id} has epoch {found}, but {current} has written already. "
            "Another instance took over: stop this one."
        )
        self.partition = partition
        self.producer_id = producer_id
        self.current = current
        self.found = found


class DirectoryLocked(TryAgain):
    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(
            f"{path} is in use by another node (process {owner}). Stop that one, or choose another --data."
        )
        self.path = path
        self.owner = owner


class DirectoryUnusable(BadRequest):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
