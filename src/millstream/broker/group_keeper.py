"""Between the group coordinator, which only decides, and the offsets topic, which remembers.

Why: decide → append → apply. The coordinator returns records and replies; here the records are appended to
`__consumer_offsets`, applied, made durable, and only then are the replies sent.
Invariants: all records of a group are in one partition (Kafka's own choice of it, so its tools find them); a reply
never leaves before the records it rests on are durable; starting up is `apply` over what is stored.
"""

import asyncio
import logging

from millstream.broker.call import Call
from millstream.broker.catalog import Catalog, Topic
from millstream.broker.partition import Partition
from millstream.broker.replay import stored_records
from millstream.broker.storage import Storage
from millstream.codec.records import Record
from millstream.coordination.coordinator import GroupCoordinator
from millstream.coordination.decision import Call as CallFacts
from millstream.coordination.decision import Decision
from millstream.coordination.errors import CorruptGroupRecord
from millstream.coordination.group_records import group_id_of, offsets_partition
from millstream.model.clock import Clock
from millstream.model.errors import MillstreamError
from millstream.model.settings import Settings
from millstream.model.topics import OFFSETS_TOPIC
from millstream.wire.errors import ErrorCode

TICK_MS_MAX = 1_000
"""A timer is never set further ahead, so that a suspended machine catches up soon."""

_OVERRIDES = {"cleanup.policy": "compact", "segment.bytes": "16777216", "compression.type": "producer"}

logger = logging.getLogger(__name__)


class GroupKeeper:
    def __init__(
        self,
        *,
        settings: Settings,
        catalog: Catalog,
        storage: Storage,
        clock: Clock,
        coordinator: GroupCoordinator,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._storage = storage
        self._clock = clock
        self.coordinator = coordinator
        self._creation: asyncio.Task[Topic] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms: int | None = None
        self._wall_offset_ms = clock.now_ms() - clock.monotonic_ms()

    def now_ms(self) -> int:
        """Unix time as it was when the node started, moved on by the clock that never goes back."""
        return self._wall_offset_ms + self._clock.monotonic_ms()

    def about(self, call: Call) -> CallFacts:
        return CallFacts(
            version=call.version,
            token=call,
            client_id=call.client_id,
            client_host=call.client_host,
            now_ms=self.now_ms(),
        )

    def recover(self) -> None:
        topic = self._catalog.find(OFFSETS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            for record in stored_records(partition.log):
                try:
                    if record.key is not None:
                        self.coordinator.apply(record.key, record.value)
                except CorruptGroupRecord as error:
                    logger.error("%s offset %s: %s", partition.name, record.offset, error)
        self.perform(self.coordinator.recovered(self.now_ms()))

    async def ready(self) -> None:
        """Make the offsets topic if this is the first time a group is spoken of."""
        if self._catalog.find(OFFSETS_TOPIC) is not None:
            return
        if self._creation is None or self._creation.done():
            count = self._settings.offsets_topic_num_partitions
            self._creation = asyncio.ensure_future(self._catalog.create(OFFSETS_TOPIC, count, _OVERRIDES))
        await asyncio.shield(self._creation)

    def perform(self, decision: Decision) -> None:
        """Append what was decided, then reply. The caller has awaited `ready`."""
        if decision.records:
            self._append(decision)
        elif decision.after_earlier:
            self._reply_when_durable(decision, self._unsynced())
        else:
            _reply(decision)
        self._schedule()

    async def forget_topic(self, name: str) -> None:
        """What was committed for a deleted topic goes with it."""
        if self._catalog.find(OFFSETS_TOPIC) is not None:
            self.perform(self.coordinator.forget_topics([name]))

    def _append(self, decision: Decision) -> None:
        topic = self._catalog.by_name[OFFSETS_TOPIC]
        by_partition: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for key, value in decision.records:
            index = offsets_partition(group_id_of(key), len(topic.partitions))
            by_partition.setdefault(index, []).append((key, value))
        now_ms = self._clock.now_ms()
        touched: list[Partition] = []
        try:
            for index, records in by_partition.items():
                partition = topic.partitions[index]
                self._storage.append_to_internal(partition.log, _as_records(records, now_ms), now_ms)
                touched.append(partition)
        except MillstreamError as error:
            logger.error("groups: %s", error)
            self.perform(
                self.coordinator.append_failed(decision, ErrorCode.COORDINATOR_NOT_AVAILABLE, self.now_ms())
            )
            return
        for key, value in decision.records:
            self.coordinator.apply(key, value)
        for partition in touched:
            self._storage.flusher.dirty(partition.log)
        waited = self._unsynced() if decision.after_earlier else touched
        self._reply_when_durable(decision, waited)

    def _unsynced(self) -> list[Partition]:
        topic = self._catalog.find(OFFSETS_TOPIC)
        partitions = topic.partitions if topic is not None else []
        return [
            partition for partition in partitions if partition.log.high_watermark < partition.log.end_offset
        ]

    def _reply_when_durable(self, decision: Decision, partitions: list[Partition]) -> None:
        waiting = len(partitions)
        if not waiting:
            _reply(decision)
            return

        def durable() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting == 0:
                _reply(decision)

        for partition in partitions:
            partition.when_durable(partition.log.end_offset, durable)

    # Time

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        """Be called again when the next session, rebalance or join runs out."""
        due_ms = self.coordinator.next_deadline_ms()
        if due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = due_ms
        delay_ms = min(max(due_ms - self.now_ms(), 0), TICK_MS_MAX)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._due_ms = None
        self._timer = None
        self.perform(self.coordinator.tick(self.now_ms()))


def _as_records(records: list[tuple[bytes, bytes | None]], now_ms: int) -> list[Record]:
    return [
        Record(offset=position, timestamp_ms=now_ms, key=key, value=value, headers=())
        for position, (key, value) in enumerate(records)
    ]


def _reply(decision: Decision) -> None:
    for call, response in decision.replies:
        call.respond(response)
