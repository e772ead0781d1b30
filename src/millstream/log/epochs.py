"""Which boot of the node wrote which offsets: the list of (leader epoch, first offset).

Why: a client that saw records of an older epoch asks where that epoch ended, to find out whether what it has
is still part of the log (OffsetForLeaderEpoch).
Invariants: epochs and start offsets both strictly increase. The list follows from the epoch stored in each
batch; a saved copy only spares the scan, and tells a damaged epoch from a real one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

UNKNOWN = (-1, -1)


class LeaderEpochs:
    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._epochs, self._starts, strict=True)

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """From `start_offset` on, `epoch` writes. An epoch that wrote nothing makes way."""
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 when it lies before the first entry."""
        row = bisect_right(self._starts, offset)
        return self._epochs[row - 1] if row else -1

    def next_start(self, offset: int) -> int:
        """Where the first epoch behind `offset` starts; far away without one."""
        row = bisect_right(self._starts, offset)
        return self._starts[row] if row < len(self._starts) else 2**63 - 1

    def end_of(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """(largest epoch not above the asked one, where it ended); (-1, -1) for one that is yet to come."""
        if not self._epochs or epoch < 0 or epoch > self._epochs[-1]:
            return UNKNOWN
        if epoch == self._epochs[-1]:
            return epoch, end_offset
        row = bisect_right(self._epochs, epoch)
        return (self._epochs[row - 1] if row else epoch), self._starts[row]

    def drop_before(self, start_offset: int) -> None:
        """The log now starts at `start_offset`; the epoch that covers it starts there."""
        row = bisect_right(self._starts, start_offset) - 1
        if row > 0:
            del self._epochs[:row]
            del self._starts[:row]
        if row >= 0:
            self._starts[0] = start_offset

    def drop_from(self, end_offset: int) -> None:
        """The log was cut at `end_offset`: what started there or later wrote nothing."""
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
