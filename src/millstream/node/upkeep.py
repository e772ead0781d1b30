"""The chores of a running node: disk space, rolling, retention, compaction, checkpoints.

Why: what is old must go and what is idle must be closed, without a client waiting for it. Deciding is quick and
happens on the event loop, which owns the logs; deleting files happens in the janitor's thread, and the CPU work of
compaction in a process of its own.
Invariants: one compaction at a time; a chore that fails is logged and tried again at its next turn.
"""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millstream.broker.broker import Broker
from millstream.log.compaction import CompactionPlan, CompactionResult
from millstream.log.datadir import remove_tree
from millstream.log.partition import PartitionLog

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

    async def _retain(self) -> None:
        """Close segments that are old enough and drop or archive what retention no longer keeps."""
        now_ms = self._broker.clock.now_ms()
        for position, log in enumerate(self._broker.catalog.logs()):
            log.roll_if_due(now_ms)
            self._unlink_later(log, log.expire(now_ms))
            for copy in log.take_archive_copies():
                await asyncio.get_running_loop().run_in_executor(self._janitor, copy.run)
                self._unlink_later(log, log.finish_archive_copy(copy))
            if position % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)

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
        for position, log in enumerate(self._broker.catalog.logs()):
            log.checkpoint()
            if position % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)

    async def _clean(self) -> None:
        """Compact what is dirty enough, one log after the other."""
        for log in self._broker.catalog.logs():
            if not log.config.compacts:
                continue
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
        self._cleaner = subprocess.Popen(
            [sys.executable, "-m", "millstream.log.compactor"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        out, problem = self._cleaner.communicate(plan.to_json())
        code, self._cleaner = self._cleaner.returncode, None
        if code == 0:
            return CompactionResult.from_json(out)
        if code > 0:
            logger.error("compaction of %s failed: %s", plan.directory, problem.strip())
        return None
