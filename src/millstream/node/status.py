"""The node as the HTTP door sees it.

Why: the door has a thread of its own; what it shows belongs to the event loop. Each question is put to the loop
and its plain answer taken back.
Invariants: nothing of the node is touched from the door's thread; a loop that does not answer is not live.
"""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from millstream.broker.broker import Broker
from millstream.console.status import (
    GroupMetrics,
    GroupPartitionMetrics,
    MetricsSnapshot,
    PartitionMetrics,
    RequestMetrics,
)
from millstream.server.kafka_door import KafkaDoor
from millstream.wire.apis import ApiKey

ANSWER_SECONDS_MAX = 5.0

T = TypeVar("T")


class NodeStatus:
    def __init__(self, broker: Broker, door: KafkaDoor, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._door = door
        self._loop = loop
        self._started = monotonic()

    def live(self) -> bool:
        try:
            return self._ask(lambda: True)
        except (concurrent.futures.TimeoutError, RuntimeError):
            return False

    def ready(self) -> tuple[bool, str]:
        if self._ask(lambda: self._broker.storage.is_full):
            return False, "the disk is full: producers are refused, consumers are served"
        return True, ""

    def metrics(self) -> MetricsSnapshot:
        return self._ask(self._snapshot)

    def _ask(self, question: Callable[[], T]) -> T:
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def put() -> None:
            try:
                answer.set_result(question())
            except Exception as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(put)
        return answer.result(ANSWER_SECONDS_MAX)

    def _snapshot(self) -> MetricsSnapshot:
        flusher = self._broker.storage.flusher
        return MetricsSnapshot(
            partitions=self._partitions(),
            group_partitions=self._group_partitions(),
            groups=[
                GroupMetrics(group=group.group_id, members=len(group.members))
                for group in self._broker.groups.coordinator.groups.values()
            ],
            requests=[
                RequestMetrics(
                    api=ApiKey(key).name.title().replace("_", ""),
                    count=int(count),
                    errors=self._door.failed_requests.get(key, 0),
                    seconds=seconds,
                )
                for key, (count, seconds) in self._door.requests.items()
            ],
            connections=self._door.connection_count,
            bytes_in=self._door.bytes_in,
            bytes_out=self._door.bytes_out,
            syncs=flusher.rounds,
            sync_seconds=flusher.sync_seconds,
            uptime_seconds=monotonic() - self._started,
            memory_bytes=_resident_bytes(),
        )

    def _partitions(self) -> list[PartitionMetrics]:
        return [
            PartitionMetrics(
                topic=topic.name,
                partition=index,
                start_offset=partition.log.start_offset,
                end_offset=partition.log.high_watermark,
                size_bytes=partition.log.size_bytes,
            )
            for topic in self._broker.catalog.by_name.values()
            for index, partition in enumerate(topic.partitions)
        ]

    def _group_partitions(self) -> list[GroupPartitionMetrics]:
        found = []
        for group, topic, index, committed in self._broker.groups.coordinator.committed_offsets():
            partition = self._broker.catalog.partition(topic, index)
            lag = -1 if partition is None else max(0, partition.log.high_watermark - committed.offset)
            found.append(
                GroupPartitionMetrics(
                    group=group, topic=topic, partition=index, committed_offset=committed.offset, lag=lag
                )
            )
        return found


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
