"""The topics of this node: names, ids, settings, partitions; and the record of them.

Why: topics, DeleteRecords bounds and producer-id blocks must survive anything an acknowledgement survived. They
are records in an internal log of their own: a request decides which to append, `apply` alone changes the state,
and starting up is `apply` over what is stored.
Invariants: a record is durable before its request is answered; a topic id is never used twice; a directory that
no record speaks of is set aside, not deleted.
"""

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.broker.partition import Partition
from millstream.broker.replay import stored_records
from millstream.broker.storage import Storage
from millstream.codec.records import Record
from millstream.log.partition import PartitionLog
from millstream.model.topic_config import TopicConfig, topic_config
from millstream.model.topics import TopicPartition

CATALOG_LOG = TopicPartition("__cluster_metadata", 0)
PRODUCER_ID_BLOCK = 1_000


@dataclass(slots=True, eq=False)
class Topic:
    name: str
    id: bytes
    overrides: dict[str, str]
    config: TopicConfig
    partitions: list[Partition] = field(default_factory=list)

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class Catalog:
    def __init__(
        self, storage: Storage, broker_defaults: Mapping[str, str], new_id: Callable[[], bytes] | None = None
    ) -> None:
        self._storage = storage
        self._broker_defaults = broker_defaults
        self._new_id = new_id or (lambda: uuid.uuid4().bytes)
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self._start_offsets: dict[tuple[bytes, int], int] = {}
        self._declared: dict[str, dict[str, Any]] = {}
        self._producer_id_end = 0
        self._producer_id_next = 0
        self._producer_ids_lock = asyncio.Lock()
        self.partition_count = 0
        log = storage.open_log(
            CATALOG_LOG, topic_config({"cleanup.policy": "compact", "segment.bytes": "1048576"})
        )
        self.record_log = Partition(CATALOG_LOG, log)

    # Reading

    def find(self, name: str) -> Topic | None:
        return self.by_name.get(name)

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self.by_name.get(name)
        return topic.partition(index) if topic is not None else None

    def logs(self) -> list[PartitionLog]:
        """Every log of the node, the catalog's own included."""
        logs = [partition.log for topic in self.by_name.values() for partition in topic.partitions]
        return [self.record_log.log, *logs]

    def config_of(self, overrides: Mapping[str, str]) -> TopicConfig:
        return topic_config(overrides, self._broker_defaults)

    # Starting up

    def recover(self) -> list[Path]:
        """Replay the records and open every partition. Returns directories set aside as unknown."""
        for record in stored_records(self.record_log.log):
            self._declare(json.loads(record.key or b"{}"), json.loads(record.value) if record.value else None)
        # What is left of the last block may have been given out before a crash.
        self._producer_id_next = self._producer_id_end
        for name, declared in self._declared.items():
            self._open(name, declared)
        self._declared.clear()
        return self._set_aside_unknown()

    def _declare(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        """While replaying, only the last word on each key counts, so nothing is opened yet."""
        if key["kind"] != "topic":
            self._apply_bounds(key, value)
        elif value is None:
            self._declared.pop(key["name"], None)
        else:
            self._declared[key["name"]] = value

    def _set_aside_unknown(self) -> list[Path]:
        known = {str(partition.name) for topic in self.by_name.values() for partition in topic.partitions}
        known.add(str(CATALOG_LOG))
        root = self._storage.data / "topics"
        aside = self._storage.data / "quarantine"
        moved = []
        for directory in sorted(root.iterdir()):
            if directory.is_dir() and directory.name not in known and not directory.name.endswith(".deleted"):
                aside.mkdir(exist_ok=True)
                target = aside / f"{directory.name}.{self._storage.clock.now_ms()}"
                os.rename(directory, target)
                moved.append(target)
        return moved

    # Changing: decide → append → apply

    async def create(self, name: str, partition_count: int, overrides: Mapping[str, str]) -> Topic:
        """Make a topic whose name, count and settings have been checked."""
        value = {"id": self._new_id().hex(), "partitions": partition_count, "config": dict(overrides)}
        await self._write([({"kind": "topic", "name": name}, value)])
        return self.by_name[name]

    async def add_partitions(self, topic: Topic, count: int) -> None:
        await self._write([self._topic_record(topic, partitions=count)])

    async def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        await self._write([self._topic_record(topic, config=dict(overrides))])

    async def delete(self, topic: Topic) -> None:
        bounds = [key for key in self._start_offsets if key[0] == topic.id]
        records: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
            ({"kind": "start", "topic": topic_id.hex(), "partition": index}, None)
            for topic_id, index in bounds
        ]
        await self._write([({"kind": "topic", "name": topic.name}, None), *records])

    async def delete_records(self, topic: Topic, index: int, offset: int) -> None:
        """Make `offset` the first readable one, for good."""
        await self._write(
            [({"kind": "start", "topic": topic.id.hex(), "partition": index}, {"offset": offset})]
        )

    async def allocate_producer_id(self) -> int:
        """An id no producer of this node had before, also after a crash."""
        async with self._producer_ids_lock:
            if self._producer_id_next == self._producer_id_end:
                end = self._producer_id_end + PRODUCER_ID_BLOCK
                await self._write([({"kind": "producer-ids"}, {"end": end})])
            self._producer_id_next += 1
            return self._producer_id_next - 1

    def _topic_record(self, topic: Topic, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        value = {"id": topic.id.hex(), "partitions": len(topic.partitions), "config": topic.overrides}
        return {"kind": "topic", "name": topic.name}, {**value, **changes}

    async def _write(self, changes: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> None:
        log = self.record_log.log
        now_ms = self._storage.clock.now_ms()
        log.append_records(
            [
                Record(
                    offset=position,
                    timestamp_ms=now_ms,
                    key=_dump(key),
                    value=None if value is None else _dump(value),
                    headers=(),
                )
                for position, (key, value) in enumerate(changes)
            ],
            now_ms,
        )
        end_offset = log.end_offset
        for key, value in changes:
            self._apply(key, value)
        self._storage.flusher.dirty(log)
        await self.record_log.durable(end_offset)

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        if key["kind"] != "topic":
            self._apply_bounds(key, value)
            return
        topic = self.by_name.get(key["name"])
        if value is None:
            if topic is not None:
                self._close_deleted(topic)
        elif topic is None:
            self._open(key["name"], value)
        else:
            self._change(topic, value)

    def _apply_bounds(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        if key["kind"] == "producer-ids" and value is not None:
            self._producer_id_end = value["end"]
        if key["kind"] == "start":
            bound = (bytes.fromhex(key["topic"]), key["partition"])
            if value is None:
                self._start_offsets.pop(bound, None)
                return
            self._start_offsets[bound] = value["offset"]
            topic = self.by_id.get(bound[0])
            if topic is not None:
                topic.partitions[bound[1]].log.delete_before(value["offset"])

    def _open(self, name: str, value: dict[str, Any]) -> None:
        overrides = value["config"]
        topic = Topic(name, bytes.fromhex(value["id"]), overrides, self.config_of(overrides))
        self._open_partitions(topic, value["partitions"])
        self.by_name[name] = topic
        self.by_id[topic.id] = topic

    def _change(self, topic: Topic, value: dict[str, Any]) -> None:
        topic.overrides = value["config"]
        topic.config = self.config_of(topic.overrides)
        for partition in topic.partitions:
            partition.log.config = topic.config
        self._open_partitions(topic, value["partitions"])

    def _open_partitions(self, topic: Topic, count: int) -> None:
        for index in range(len(topic.partitions), count):
            name = TopicPartition(topic.name, index)
            bound = self._start_offsets.get((topic.id, index), 0)
            log = self._storage.open_log(name, topic.config, start_offset_min=bound)
            topic.partitions.append(Partition(name, log))
            self.partition_count += 1

    def _close_deleted(self, topic: Topic) -> None:
        del self.by_name[topic.name]
        del self.by_id[topic.id]
        self.partition_count -= len(topic.partitions)
        for partition in topic.partitions:
            self._storage.flusher.forget(partition.log)
            self._storage.discard(partition.log.destroy())
            partition.wake_all()


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
