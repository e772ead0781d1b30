"""One partition as the broker sees it: its log, and who waits for it to move.

Why: producers wait until their bytes are safe, consumers until there is something new; both wake on the one
event that the high watermark moved, and nobody polls.
Invariants: produce waiters are in offset order, since appends are; a waiter is called once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from millstream.log.partition import PartitionLog
from millstream.model.topics import TopicPartition


class Wakeable(Protocol):
    def wake(self) -> None: ...


class Partition:
    __slots__ = ("_durable_waiters", "_readers", "log", "name")

    def __init__(self, name: TopicPartition, log: PartitionLog) -> None:
        self.name = name
        self.log = log
        self._durable_waiters: deque[tuple[int, Callable[[], None]]] = deque()
        self._readers: dict[Wakeable, None] = {}
        log.on_advance = self._advanced

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed stops. Without open transactions, the high watermark."""
        return self.log.high_watermark

    def when_durable(self, end_offset: int, callback: Callable[[], None]) -> None:
        """Call back once everything below `end_offset` is as safe as `log.fsync` promises."""
        if self.log.high_watermark >= end_offset:
            callback()
        else:
            self._durable_waiters.append((end_offset, callback))

    async def durable(self, end_offset: int) -> None:
        if self.log.high_watermark >= end_offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_durable(end_offset, lambda: None if future.done() else future.set_result(None))
        await future

    def add_reader(self, reader: Wakeable) -> None:
        self._readers[reader] = None

    def remove_reader(self, reader: Wakeable) -> None:
        self._readers.pop(reader, None)

    def wake_all(self) -> None:
        """The partition is going away: whoever waits looks again and finds out."""
        waiters, self._durable_waiters = self._durable_waiters, deque()
        for _, callback in waiters:
            callback()
        self._wake_readers()

    def _advanced(self) -> None:
        high_watermark = self.log.high_watermark
        waiters = self._durable_waiters
        while waiters and waiters[0][0] <= high_watermark:
            waiters.popleft()[1]()
        if self._readers:
            self._wake_readers()

    def _wake_readers(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers:
            reader.wake()
