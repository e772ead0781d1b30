"""One group commit for every partition that waits.

Why: an fsync takes longer than everything else a produce does, and one round of them can serve all partitions
that became dirty since the last. The event loop never waits for a disk: threads do, and tell it.
Life of a round: `dirty` queues logs; when the threads are idle, all queued logs say what has to reach the disk
(`begin_sync`); the threads sync it, several files at once; one callback in the loop then advances every high
watermark (`end_sync`, `advance`) and starts the next round.
Invariants: at most one round runs; a high watermark moves only after the sync that covers its bytes, unless
`log.fsync` says otherwise; after a failed sync nothing advances any more, and it is never tried again, because
the kernel has dropped what it could not write.
"""

import errno
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter

from millstream.log.errors import LogIOError, TooManyOpenFiles
from millstream.log.files import fdatasync, sync_directory
from millstream.log.partition import PartitionLog, SyncMark
from millstream.model.clock import Clock, SystemClock
from millstream.model.settings import FsyncMode
from millstream.model.topic_config import INT64_MAX

THREADS = 4
"""Four files synced at once take two thirds of the time they take one after the other; more gain nothing."""

ROUND_FILES_MAX = 256
"""Files pinned by one round; other logs wait for the next."""

_TICK_MS_MIN = 10
_RETRY_SECONDS = 0.05
_DESCRIPTOR_TRIES = 200
_WAIT_SECONDS = 0.001


class _Round:
    __slots__ = ("_lock", "_remaining", "began", "error", "is_done", "marks")

    def __init__(self, marks: list[tuple[PartitionLog, SyncMark]], parts: int) -> None:
        self.marks = marks
        self.error: OSError | None = None
        self.is_done = False
        self.began = perf_counter()
        self._remaining = parts
        self._lock = threading.Lock()

    def finish_part(self, error: OSError | None) -> bool:
        """One thread has done its share; returns whether it was the last."""
        with self._lock:
            if error is not None and self.error is None:
                self.error = error
            self._remaining -= 1
            return not self._remaining


class Flusher:
    """`schedule` runs a callable in the thread that owns the logs, from any thread.

    `on_failure` is called there once, after a sync failed: stop the node.
    """

    def __init__(
        self,
        mode: FsyncMode,
        interval_ms: int,
        schedule: Callable[[Callable[[], None]], object],
        on_failure: Callable[[OSError], None],
        *,
        sync: Callable[[int], None] = fdatasync,
        clock: Clock | None = None,
        threads: int = THREADS,
    ) -> None:
        self._is_always = mode == "always"
        self._is_interval = mode == "interval"
        self._schedule = schedule
        self._on_failure = on_failure
        self._sync = sync
        self._clock = clock or SystemClock()
        self._thread_count = threads
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[tuple[_Round, list[int], list[str]] | None] = SimpleQueue()
        self._queue: dict[PartitionLog, bool] = {}
        """Logs for the next round, and whether their high watermark waits for it."""
        self._waiting: set[PartitionLog] = set()
        self._round: _Round | None = None
        self._lazy: dict[PartitionLog, int] = {}
        """Logs that were advanced unsynced, and since when."""
        self._tick_ms = interval_ms if self._is_interval else INT64_MAX
        self._ticker: threading.Thread | None = None
        self._tick_changed = threading.Event()
        self._is_closing = False
        self.failure: OSError | None = None
        self.rounds = 0
        self.sync_seconds = 0.0

    def dirty(self, log: PartitionLog) -> None:
        """The log has appended. Its high watermark moves now or after a sync, as `log.fsync` says."""
        if not self._is_always:
            config = log.config
            if log not in self._waiting and log.unsynced_records < config.flush_messages:
                self._advance_unsynced(log, config.flush_ms)
                return
            self._waiting.add(log)
        self._queue[log] = True
        if self._round is None:
            self._start_round()

    def forget(self, log: PartitionLog) -> None:
        """The log is gone: don't sync it any more."""
        self._queue.pop(log, None)
        self._lazy.pop(log, None)
        self._waiting.discard(log)

    def close(self) -> None:
        """Sync and advance all that waits, then stop the threads. Call in the thread that owns the logs."""
        self._is_closing = True
        self._tick_changed.set()
        if self._round is not None:
            while not self._round.is_done:
                time.sleep(_WAIT_SECONDS)
            self._finish_round()
        if self.failure is None:
            self._queue.update(dict.fromkeys(self._lazy, True))
            self._lazy.clear()
            for log in list(self._queue):
                self._sync_here(log)
        for _ in self._threads:
            self._jobs.put(None)
        for thread in [*self._threads, *([self._ticker] if self._ticker else [])]:
            thread.join()
        self._threads.clear()
        self._ticker = None

    def _advance_unsynced(self, log: PartitionLog, flush_ms: int) -> None:
        if self._is_interval or flush_ms != INT64_MAX:
            self._lazy.setdefault(log, self._clock.monotonic_ms())
            if flush_ms < self._tick_ms:
                self._tick_ms = max(_TICK_MS_MIN, flush_ms)
                self._tick_changed.set()
            if self._ticker is None and not self._is_closing:
                self._ticker = threading.Thread(target=self._tick_forever, name="sync-ticker", daemon=True)
                self._ticker.start()
        if log.has_sealed_unsynced and self.failure is None:
            self._queue.setdefault(log, False)
            if self._round is None:
                self._start_round()
        if self.failure is None:
            log.advance(log.end_offset)

    def _start_round(self) -> None:
        """Ask every queued log what to sync, and hand it to the threads."""
        if self.failure is not None or self._is_closing:
            return
        queue, self._queue = self._queue, {}
        marks: list[tuple[PartitionLog, SyncMark]] = []
        fds: list[int] = []
        directories: list[str] = []
        for log, waits in queue.items():
            if len(fds) >= ROUND_FILES_MAX:
                self._queue[log] = waits
                continue
            try:
                mark = log.begin_sync(sealed_only=not waits)
            except TooManyOpenFiles:
                self._queue[log] = waits
                continue
            except LogIOError as error:
                self._fail(OSError(error.errno, str(error)))
                return
            marks.append((log, mark))
            fds += mark.fds
            directories += mark.directories
        if not fds and not directories:
            if marks:
                self._round = _Round(marks, 0)
                self._finish_round()
            elif self._queue:
                self._retry_later()
            return
        self.rounds += 1
        count = max(1, min(len(fds), self._thread_count))
        self._round = round_ = _Round(marks, count)
        if not self._threads:
            self._start_threads()
        self._jobs.put((round_, fds[::count], directories))
        for part in range(1, count):
            self._jobs.put((round_, fds[part::count], []))

    def _retry_later(self) -> None:
        """No descriptor was to be had for any log: somebody may give one back soon."""
        timer = threading.Timer(_RETRY_SECONDS, self._schedule, (self._tick,))
        timer.daemon = True
        timer.start()

    def _finish_round(self) -> None:
        """In the loop: everything of the round is on disk, or an error says that it isn't."""
        round_ = self._round
        if round_ is None or round_.error is not None:
            if round_ is not None and round_.error is not None and self.failure is None:
                self._fail(round_.error)
            return
        self.sync_seconds += perf_counter() - round_.began
        defect: Exception | None = None
        for log, mark in round_.marks:
            if log not in self._queue:
                self._waiting.discard(log)
            try:
                log.end_sync(mark)
                log.advance(mark.end_offset)
            except Exception as error:  # one log's waiters must not keep the others from advancing
                defect = defect or error
        self._round = None
        if self._queue:
            self._start_round()
        if defect is not None:
            raise defect

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self._queue.clear()
        self._lazy.clear()
        self._on_failure(error)

    def _sync_here(self, log: PartitionLog) -> None:
        if self.failure is not None:
            return
        mark = log.begin_sync()
        try:
            for fd in mark.fds:
                self._sync(fd)
            for directory in mark.directories:
                _sync_directory(directory)
        except OSError as error:
            self._fail(error)
            return
        self._queue.pop(log, None)
        log.end_sync(mark)
        log.advance(mark.end_offset)

    def _tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for log, since_ms in list(self._lazy.items()):
            if self._is_interval or now_ms - since_ms >= log.config.flush_ms:
                del self._lazy[log]
                self._queue.setdefault(log, True)
        if self._queue and self._round is None:
            self._start_round()

    # --- in other threads

    def _start_threads(self) -> None:
        for number in range(self._thread_count):
            thread = threading.Thread(target=self._work, name=f"sync-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        take = self._jobs.get
        sync = self._sync
        while True:
            job = take()
            if job is None:
                return
            round_, fds, directories = job
            failure: OSError | None = None
            try:
                for fd in fds:
                    sync(fd)
                for directory in directories:
                    _sync_directory(directory)
            except OSError as error:
                failure = error
            if round_.finish_part(failure):
                round_.is_done = True
                with suppress(RuntimeError):  # the loop was closed before us
                    self._schedule(self._finish_round)

    def _tick_forever(self) -> None:
        while not self._is_closing:
            if self._tick_changed.wait(self._tick_ms / 1000):
                self._tick_changed.clear()
            elif not self._is_closing:
                with suppress(RuntimeError):  # the loop was closed before us
                    self._schedule(self._tick)


def _sync_directory(path: str) -> None:
    """Make a directory's entries durable; waits for a descriptor if there is none just now."""
    for _ in range(_DESCRIPTOR_TRIES):
        try:
            sync_directory(path)
            return
        except FileNotFoundError:
            return  # the topic was deleted meanwhile
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            time.sleep(_RETRY_SECONDS)
    sync_directory(path)
