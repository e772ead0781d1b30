"""The topics of this node: names, ids, settings, partitions; and the record of them.

Why: topics, DeleteRecords bounds and producer-id blocks must survive anything an acknowledgement survived. They
are records in an internal log of their own: a request decides which to append, `apply` alone changes the state,
and starting up is `apply` over what is stored.
Invariants: a record is durable before its request is answered, and a deletion before anything is deleted; a topic
id is never used twice; a new topic begins empty, whatever lies in its place; a directory that no record speaks of
is set aside, not deleted.
"""

import asyncio
import errno
import json
import logging
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
from millstream.log.datadir import DOOMED_SUFFIX
from millstream.log.errors import CorruptRange, LogIOError
from millstream.log.partition import PartitionLog
from millstream.model.errors import MillstreamError
from millstream.model.topic_config import TopicConfig, topic_config
from millstream.model.topics import CATALOG_TOPIC, TopicPartition

CATALOG_LOG = TopicPartition(CATALOG_TOPIC, 0)
PRODUCER_ID_BLOCK = 1_000

Change = tuple[dict[str, Any], dict[str, Any] | None]
"""A record's key and value."""

logger = logging.getLogger(__name__)


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
        self._declared: dict[str, dict[str, Any] | None] = {}
        """While starting: the last word on each topic; None is its deletion."""
        self._leaving: set[str] = set()
        """Deleted topics whose files are still in their place."""
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

    def holds(self, log: PartitionLog) -> bool:
        """Whether the log is still one of the node's, or was deleted since `logs` gave it."""
        if log is self.record_log.log:
            return True
        partition = self.partition(*log.topic_partition)
        return partition is not None and partition.log is log

    def config_of(self, overrides: Mapping[str, str]) -> TopicConfig:
        return topic_config(overrides, self._broker_defaults)

    # Starting up

    def recover(self) -> list[Path]:
        """Replay the records and open every partition. Returns directories set aside as unknown."""
        damaged: list[CorruptRange] = []
        for record in stored_records(self.record_log.log, damaged):
            self._declare(json.loads(record.key or b"{}"), json.loads(record.value) if record.value else None)
        for damage in damaged:
            logger.error("%s What it said of topics is lost with it.", damage)
        # What is left of the last block may have been given out before a crash.
        self._producer_id_next = self._producer_id_end
        for name, declared in self._declared.items():
            if declared is not None:
                self._open(name, declared)
        deleted = {name for name, declared in self._declared.items() if declared is None}
        self._declared.clear()
        # Where records are damaged, what looks deleted may have been made again: then nothing is removed.
        self._finish_deletions(set() if damaged else deleted)
        return self._set_aside_unknown()

    def _declare(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        """While replaying, only the last word on each key counts, so nothing is opened yet."""
        if key["kind"] != "topic":
            self._apply_bounds(key, value)
        else:
            self._declared[key["name"]] = value

    def _finish_deletions(self, names: set[str]) -> None:
        """The node died between the record of a deletion and the deletion: the rest is done now."""
        for root in (self._storage.topics, self._storage.archive):
            for directory in _directories_in(root):
                name, _, index = directory.name.rpartition("-")
                if name in names and index.isdigit():
                    doomed = directory.with_name(f"{directory.name}.{self._now_ms()}{DOOMED_SUFFIX}")
                    os.rename(directory, doomed)

    def _set_aside_unknown(self) -> list[Path]:
        known = {str(partition.name) for topic in self.by_name.values() for partition in topic.partitions}
        known.add(str(CATALOG_LOG))
        return [
            self._set_aside(directory)
            for directory in _directories_in(self._storage.topics)
            if directory.name not in known and not directory.name.endswith(DOOMED_SUFFIX)
        ]

    def _set_aside(self, directory: Path) -> Path:
        """Move a directory where nobody will take it for a partition's, without losing it."""
        aside = self._storage.data / "quarantine"
        aside.mkdir(exist_ok=True)
        target = aside / f"{directory.name}.{self._now_ms()}"
        try:
            os.rename(directory, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            target = directory.with_name(f"{target.name}.quarantine")  # an archive on a disk of its own
            os.rename(directory, target)
        return target

    def _now_ms(self) -> int:
        return self._storage.clock.now_ms()

    # Changing: decide → append → apply

    async def create(self, name: str, partition_count: int, overrides: Mapping[str, str]) -> Topic:
        """Make a topic whose name, count and settings have been checked."""
        value = {"id": self._new_id().hex(), "partitions": partition_count, "config": dict(overrides)}
        end_offset = self._append([({"kind": "topic", "name": name}, value)])
        topic = self.by_name[name]
        await self.record_log.durable(end_offset)
        return topic

    async def add_partitions(self, topic: Topic, count: int) -> None:
        await self._write([self._topic_record(topic, partitions=count)])

    async def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        await self._write([self._topic_record(topic, config=dict(overrides))], may_use_reserve=True)

    async def delete(self, topic: Topic) -> None:
        """Nobody sees the topic from now on; its files go when the record of it is durable."""
        bounds = [key for key in self._start_offsets if key[0] == topic.id]
        records: list[Change] = [
            ({"kind": "start", "topic": topic_id.hex(), "partition": index}, None)
            for topic_id, index in bounds
        ]
        end_offset = self._append(
            [({"kind": "topic", "name": topic.name}, None), *records], may_use_reserve=True
        )
        self._leaving.add(topic.name)
        await self.record_log.durable(end_offset)
        for partition in topic.partitions:
            self._storage.discard(partition.log.destroy())
        self._leaving.discard(topic.name)

    def is_leaving(self, name: str) -> bool:
        """Whether a topic of this name was deleted only just now, and its place is not yet free."""
        return name in self._leaving

    async def delete_records(self, topic: Topic, index: int, offset: int) -> None:
        """Make `offset` the first readable one, for good."""
        key = {"kind": "start", "topic": topic.id.hex(), "partition": index}
        await self._write([(key, {"offset": offset})], may_use_reserve=True)

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

    async def _write(self, changes: list[Change], *, may_use_reserve: bool = False) -> None:
        await self.record_log.durable(self._append(changes, may_use_reserve=may_use_reserve))

    def _append(self, changes: list[Change], *, may_use_reserve: bool = False) -> int:
        """Append and apply; returns the offset to wait for. Raises, and then nothing has changed.

        Only what helps to get space back may use the reserve for it.
        """
        before = [self._as_it_is(key) for key, _ in changes]
        self._append_records(changes, may_use_reserve=may_use_reserve)
        try:
            for key, value in changes:
                self._apply(key, value)
        except MillstreamError:
            self._append_records(before, may_use_reserve=True)
            raise
        finally:
            self._storage.flusher.dirty(self.record_log.log)
        return self.record_log.log.end_offset

    def _as_it_is(self, key: dict[str, Any]) -> Change:
        """The record that would make this key what it is now."""
        if key["kind"] == "topic":
            topic = self.by_name.get(key["name"])
            return self._topic_record(topic) if topic is not None else (key, None)
        if key["kind"] == "start":
            offset = self._start_offsets.get((bytes.fromhex(key["topic"]), key["partition"]))
            return key, None if offset is None else {"offset": offset}
        return key, {"end": self._producer_id_end}

    def _append_records(self, changes: list[Change], *, may_use_reserve: bool) -> None:
        now_ms = self._now_ms()
        records = [
            Record(
                offset=position,
                timestamp_ms=now_ms,
                key=_dump(key),
                value=None if value is None else _dump(value),
                headers=(),
            )
            for position, (key, value) in enumerate(changes)
        ]
        append = self._storage.append_to_internal if may_use_reserve else PartitionLog.append_records
        append(self.record_log.log, records, now_ms)

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        if key["kind"] != "topic":
            self._apply_bounds(key, value)
            return
        topic = self.by_name.get(key["name"])
        if value is None:
            if topic is not None:
                self._unlist(topic)
        elif topic is None:
            self._clear_the_way(key["name"], value["partitions"])
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

    def _clear_the_way(self, name: str, count: int) -> None:
        """A new topic must not take over what an older one of its name may have left behind."""
        for index in range(count):
            for root in (self._storage.topics, self._storage.archive):
                directory = root / str(TopicPartition(name, index))
                if not directory.exists():
                    continue
                try:
                    moved = self._set_aside(directory)
                except OSError as error:
                    raise LogIOError(directory, error) from error
                logger.warning("%s was in the way of a new topic; it is now %s", directory, moved)

    def _open(self, name: str, value: dict[str, Any]) -> None:
        overrides = value["config"]
        topic = Topic(name, bytes.fromhex(value["id"]), overrides, self.config_of(overrides))
        self._open_partitions(topic, value["partitions"])
        self.by_name[name] = topic
        self.by_id[topic.id] = topic

    def _change(self, topic: Topic, value: dict[str, Any]) -> None:
        self._open_partitions(topic, value["partitions"])
        topic.overrides = value["config"]
        topic.config = self.config_of(topic.overrides)
        for partition in topic.partitions:
            partition.log.config = topic.config

    def _open_partitions(self, topic: Topic, count: int) -> None:
        """Open those that are missing, or none of them."""
        added: list[Partition] = []
        try:
            for index in range(len(topic.partitions), count):
                name = TopicPartition(topic.name, index)
                bound = self._start_offsets.get((topic.id, index), 0)
                added.append(
                    Partition(name, self._storage.open_log(name, topic.config, start_offset_min=bound))
                )
        except MillstreamError:
            if not self._declared:  # while starting nothing is removed
                for partition in added:
                    self._storage.discard(partition.log.destroy())
            raise
        topic.partitions += added
        self.partition_count += len(added)

    def _unlist(self, topic: Topic) -> None:
        del self.by_name[topic.name]
        del self.by_id[topic.id]
        self.partition_count -= len(topic.partitions)
        for partition in topic.partitions:
            self._storage.flusher.forget(partition.log)
            partition.wake_all()


def _directories_in(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
