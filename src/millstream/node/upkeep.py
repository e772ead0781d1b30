"""The chores of a running node: disk space, rolling, retention, compaction, checkpoints.

Why: what is old must go and what is idle must be closed, without a client waiting for it. Deciding is quick and
happens on the event loop, which owns the logs; deleting files happens in the janitor's thread, and the CPU work of
compaction in a process of its own.
Invariants: one compaction at a time, and none outlives the node; a chore that fails is logged and tried again at
its next turn; a log that makes trouble keeps no other from its turn.
"""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from millstream.broker.broker import Broker
from millstream.log.archive import ArchiveCopy
from millstream.log.compaction import CompactionPlan, CompactionResult
from millstream.log.datadir import remove_tree
from millstream.log.errors import DiskFull
from millstream.log.partition import PartitionLog
from millstream.log.segment import segment_name
from millstream.model.errors import MillstreamError

SPACE_SECONDS = 1.0
CHECKPOINT_SECONDS = 60.0
YIELD_EVERY = 50
"""Logs looked at before clients get their turn again."""

logger = logging.getLogger(__name__)


class Upkeep:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._janitor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="millstream-janitor")
        self._cleaner: subprocess.Popen[str] | None = None

    def start(self, doomed: list[Path]) -> None:
        """Begin. `doomed` are directories that a stopped node had no time to remove."""
        self._broker.storage.discard = self._remove_trees
        self._remove_trees(doomed)
        settings = self._broker.settings
        self._every(SPACE_SECONDS, self._check_space)
        self._every(settings.log_retention_check_interval_ms / 1000, self._retain)
        self._every(CHECKPOINT_SECONDS, self._checkpoint)
        if settings.log_cleaner_enable:
            self._every(settings.log_cleaner_backoff_ms / 1000, self._clean)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._cleaner is not None:
            self._cleaner.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._janitor.shutdown(wait=True)

    def _every(self, seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await chore()
                except Exception:
                    logger.exception(
                        "%s failed; it is tried again in %g s", chore.__name__.strip("_"), seconds
                    )

        self._tasks.append(asyncio.get_running_loop().create_task(repeat()))

    async def _check_space(self) -> None:
        storage = self._broker.storage
        was_full = storage.is_full
        if storage.check_space() == was_full:
            logger.warning(
                "the disk is full: producers are refused until space is back"
                if storage.is_full
                else "the disk has space again: producers are served"
            )

    async def _each_log(self) -> AsyncIterator[PartitionLog]:
        """Every log that is still there when its turn comes; clients get theirs in between."""
        for position, log in enumerate(self._broker.catalog.logs()):
            if position % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            if self._broker.catalog.holds(log):
                yield log

    async def _retain(self) -> None:
        """Close segments that are old enough and drop or archive what retention no longer keeps."""
        now_ms = self._broker.clock.now_ms()
        async for log in self._each_log():
            with _others_go_on("retention", log):
                with suppress(DiskFull):  # all the more reason to go on
                    log.roll_if_due(now_ms)
                self._unlink_later(log, log.expire(now_ms))
                for copy in log.take_archive_copies():
                    await self._archive(log, copy)

    async def _archive(self, log: PartitionLog, copy: ArchiveCopy) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._janitor, copy.run)
        except OSError:
            log.abandon_archive_copy(copy)
            raise
        if self._broker.catalog.holds(log):
            self._unlink_later(log, log.finish_archive_copy(copy))
        else:  # deleted meanwhile, and its archive with it
            self._unlink(list(Path(copy.target).glob(f"{segment_name(copy.base_offset)}.*")))

    def _unlink_later(self, log: PartitionLog, paths: list[Path]) -> None:
        if not paths:
            return
        delay = log.config.file_delete_delay_ms / 1000
        asyncio.get_running_loop().call_later(delay, self._unlink, paths)

    def _unlink(self, paths: list[Path]) -> None:
        def unlink() -> None:
            for path in paths:
                path.unlink(missing_ok=True)

        self._janitor.submit(unlink)

    def _remove_trees(self, paths: list[Path]) -> None:
        for path in paths:
            self._janitor.submit(remove_tree, path)

    async def _checkpoint(self) -> None:
        """Remember how far each log is safe; forget producers and mapped memory that nobody used lately."""
        idle_ms_max = self._broker.settings.producer_id_expiration_ms
        self._broker.storage.files.drop_windows()
        async for log in self._each_log():
            with _others_go_on("the checkpoint", log):
                log.producers.expire(self._broker.clock.now_ms(), idle_ms_max)
                log.checkpoint()

    async def _clean(self) -> None:
        """Compact what is dirty enough, one log after the other."""
        async for log in self._each_log():
            if not log.config.compacts:
                continue
            with _others_go_on("compaction", log):
                log.roll_if_due(self._broker.clock.now_ms())
                plan = log.compaction_plan(self._broker.clock.now_ms())
                if plan is not None:
                    await self._compact(log, plan)

    async def _compact(self, log: PartitionLog, plan: CompactionPlan) -> None:
        result = await asyncio.to_thread(self._run_compactor, plan)
        if result is None:
            return
        doomed = log.apply_compaction(plan, result)
        self._unlink_later(log, doomed)

    def _run_compactor(self, plan: CompactionPlan) -> CompactionResult | None:
        # The child reads from a pipe that only this process can write to: when we die, it ends, and it dies too.
        lifeline, ours = os.pipe()
        try:
            self._cleaner = subprocess.Popen(
                [sys.executable, "-m", "millstream.node.compaction_process", str(lifeline)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                pass_fds=(lifeline,),
            )  # fmt: skip
            out, problem = self._cleaner.communicate(plan.to_json())
        finally:
            os.close(lifeline)
            os.close(ours)
        code, self._cleaner = self._cleaner.returncode, None
        if code == 0:
            return CompactionResult.from_json(out)
        if code > 0:
            logger.error("compaction of %s failed: %s", plan.directory, problem.strip())
        return None


@contextmanager
def _others_go_on(chore: str, log: PartitionLog) -> Iterator[None]:
    """A disk's or a log's trouble is said and left for the next turn; the logs behind it get theirs."""
    try:
        yield
    except (MillstreamError, OSError) as error:
        logger.error("%s of %s failed; it is tried again: %s", chore, log.topic_partition, error)
