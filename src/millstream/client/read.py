"""Reading records from any place in a topic, to its end or for ever, without a group.

Why: tail, previews and checks read a topic without joining a group, committing, or being told where to start.
Invariants: order within a partition is kept; a bounded read returns exactly what lay between its start and
the end as it was when it began; lost positions raise `OffsetOutOfRange`, never a silent jump; at most
`BATCH_RECORDS_MAX` records (or the last N asked for) are held at once.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from millstream.client.connection import Connection
from millstream.client.errors import (
    BrokerTimedOut,
    InvalidOption,
    OffsetOutOfRange,
    UnknownTopic,
    from_kafka_error,
)
from millstream.client.offsets import OffsetSpan, offset_spans, partitions_of
from millstream.client.positions import AtOffset, LastRecords, Position, resolve
from millstream.client.records import ReceivedRecord
from millstream.client.session import AdminSession
from millstream.model.errors import BadRequest
from millstream.model.topics import TopicPartition

BATCH_RECORDS_MAX = 1_000
LAST_RECORDS_MAX = 100_000
_WAIT_S = 0.2  # short, so that Ctrl-C is heard
_NEW_PARTITIONS_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What a read will cover, fixed when it begins."""

    topic: str
    spans: Mapping[TopicPartition, OffsetSpan]
    starts: Mapping[TopicPartition, int]
    last: int | None = None
    """Only so many of the records between `starts` and the ends, the latest over all partitions."""
    all_partitions: bool = True


def plan_read(
    session: AdminSession, topic: str, start: Position, *, partitions: Iterable[int] = ()
) -> ReadPlan:
    """Where a read would start. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange."""
    only = tuple(partitions)
    spans = offset_spans(session, partitions_of(session, topic, only))
    if isinstance(start, LastRecords):
        if start.count > LAST_RECORDS_MAX:
            raise BadRequest(
                f"the last {start.count} is more than {LAST_RECORDS_MAX}: start at a time or an offset"
            )
        starts = {p: max(span.end - start.count, span.start) for p, span in spans.items()}
        return ReadPlan(topic=topic, spans=spans, starts=starts, last=start.count, all_partitions=not only)
    if isinstance(start, AtOffset):
        _require_in_range(spans, start.offset)
    return ReadPlan(topic=topic, spans=spans, starts=resolve(session, spans, start), all_partitions=not only)


def _require_in_range(spans: Mapping[TopicPartition, OffsetSpan], offset: int) -> None:
    """One partition at least must hold the offset; the others start at their nearest."""
    if any(span.start <= offset <= span.end for span in spans.values()):
        return
    partition, span = max(spans.items(), key=lambda item: item[1].end)
    raise OffsetOutOfRange(partition.topic, partition.partition, offset, span.start, span.end)


def read(
    connection: Connection,
    plan: ReadPlan,
    *,
    follow: bool = False,
    count: int | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[ReceivedRecord]:
    """The records of a plan, one by one; with `follow` it waits for more and ends only at `count`."""
    for batch in read_batches(connection, plan, follow=follow, count=count, notify=notify):
        yield from batch


def read_batches(
    connection: Connection,
    plan: ReadPlan,
    *,
    follow: bool = False,
    count: int | None = None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[list[ReceivedRecord]]:
    """As `read`, in batches as they arrive, so that a caller can flush after each.

    `notify` hears in a sentence when the broker goes away and a following read waits for it.
    """
    left = count
    if left == 0:
        return
    reader = _Reader(connection, plan, notify)
    try:
        for batch in reader.batches(follow):
            taken = batch if left is None else batch[:left]
            if taken:
                yield taken
            if left is not None:
                left -= len(taken)
                if left == 0:
                    return
    finally:
        reader.close()


def first_records(
    connection: Connection, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ReceivedRecord]:
    """The first record at or after an offset of each partition of one topic; absent where there is none."""
    if not offsets:
        return {}
    topic = next(iter(offsets)).topic
    reader = _Reader(connection, ReadPlan(topic=topic, spans={}, starts=offsets), None)
    try:
        return reader.firsts(offsets)
    finally:
        reader.close()


class _Reader:
    def __init__(self, connection: Connection, plan: ReadPlan, notify: Callable[[str], None] | None) -> None:
        self._connection = connection
        self._plan = plan
        self._notify = notify
        self._trouble = ""
        config: dict[str, Any] = connection.config(
            group_id="millstream-read",  # the library wants one; nothing is joined or committed
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            check_crcs=True,
            topic_metadata_propagation_max_ms=2_000,  # the topic was there when the read was planned
        )
        config["error_cb"] = self._on_error
        try:
            self._consumer = Consumer(config)
        except KafkaException as error:
            raise InvalidOption(error.args[0].str()) from None

    def close(self) -> None:
        self._consumer.close()

    def batches(self, follow: bool) -> Iterator[list[ReceivedRecord]]:
        plan = self._plan
        starts = plan.starts
        if plan.last is not None:
            yield self._last_records(plan.last)
            starts = {p: span.end for p, span in plan.spans.items()}
        elif not follow:
            ends = {p: span.end for p, span in plan.spans.items()}
            yield from self._until(starts, ends)
        if follow:
            yield from self._for_ever(starts)

    def firsts(self, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, ReceivedRecord]:
        found: dict[TopicPartition, ReceivedRecord] = {}
        waiting = set(starts)
        self._assign(starts)
        deadline = time.monotonic() + self._connection.timeout_s
        while waiting and time.monotonic() < deadline:
            for message in self._poll():
                partition = TopicPartition(self._plan.topic, message.partition() or 0)
                if not self._is_partition_end(message) and partition in waiting:
                    found[partition] = _received(message)
                waiting.discard(partition)
        return found

    def _until(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Iterator[list[ReceivedRecord]]:
        """Everything in [start, end) of each partition."""
        open_partitions = {p.partition: ends[p] for p in ends if starts[p] < ends[p]}
        self._assign({p: starts[p] for p in ends if p.partition in open_partitions})
        heard_at = time.monotonic()
        while open_partitions:
            messages = self._poll()
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > self._connection.timeout_s:
                self._raise_silence()
            batch: list[ReceivedRecord] = []
            for message in messages:
                partition = message.partition() or 0
                end = open_partitions.get(partition)
                at_end = self._is_partition_end(message)
                if end is None:
                    continue
                if not at_end and (message.offset() or 0) < end:
                    batch.append(_received(message))
                if at_end or (message.offset() or 0) >= end - 1:
                    del open_partitions[partition]
                    self._consumer.incremental_unassign(
                        [confluent_kafka.TopicPartition(self._plan.topic, partition)]
                    )
            yield batch

    def _for_ever(self, starts: Mapping[TopicPartition, int]) -> Iterator[list[ReceivedRecord]]:
        self._assign(starts)
        known = {p.partition for p in starts}
        looked_at = time.monotonic()
        while True:
            messages = self._poll()
            batch = [_received(message) for message in messages if not self._is_partition_end(message)]
            if batch:
                yield batch
            if self._plan.all_partitions and time.monotonic() - looked_at > _NEW_PARTITIONS_EVERY_S:
                looked_at = time.monotonic()
                self._add_new_partitions(known)

    def _last_records(self, count: int) -> list[ReceivedRecord]:
        """The last `count`, looking further back where compaction or transactions left gaps."""
        spans = self._plan.spans
        found: dict[TopicPartition, deque[ReceivedRecord]] = {p: deque() for p in spans}
        starts = dict(self._plan.starts)
        ends = {p: span.end for p, span in spans.items()}
        step = max(count, 1)
        while ends:
            earlier: dict[TopicPartition, list[ReceivedRecord]] = {p: [] for p in ends}
            for batch in self._until(starts, ends):
                for record in batch:
                    earlier[TopicPartition(record.topic, record.partition)].append(record)
            for p, records in earlier.items():
                found[p].extendleft(reversed(records[-count:]))
            step *= 2
            ends = {p: starts[p] for p in ends if len(found[p]) < count and starts[p] > spans[p].start}
            starts = {p: max(end - step, spans[p].start) for p, end in ends.items()}
        return latest([list(records) for records in found.values()], count)

    def _assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self._consumer.assign(
            [confluent_kafka.TopicPartition(p.topic, p.partition, offset) for p, offset in starts.items()]
        )

    def _poll(self) -> list[Message]:
        first = self._consumer.poll(_WAIT_S)
        if first is None:
            return []
        # consume() alone would wait for the batch to fill.
        return [first, *self._consumer.consume(BATCH_RECORDS_MAX - 1, 0)]

    def _is_partition_end(self, message: Message) -> bool:
        """True for the library's end-of-partition mark. Raises for its errors."""
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        topic, partition = self._plan.topic, message.partition() or 0
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._raise_out_of_range(TopicPartition(topic, partition), message.offset() or 0)
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            raise UnknownTopic(topic)
        raise from_kafka_error(error, bootstrap=self._connection.bootstrap, subject=f"{topic}-{partition}")

    def _raise_silence(self) -> None:
        """Why nothing comes: the topic is gone, the broker is, or it is stuck."""
        with AdminSession(self._connection) as session:
            partitions_of(session, self._plan.topic)
        raise BrokerTimedOut(self._connection.bootstrap, self._trouble or f"reading {self._plan.topic}")

    def _raise_out_of_range(self, partition: TopicPartition, offset: int) -> None:
        with AdminSession(self._connection) as session:
            span = offset_spans(session, [partition])[partition]
        raise OffsetOutOfRange(partition.topic, partition.partition, offset, span.start, span.end)

    def _add_new_partitions(self, known: set[int]) -> None:
        try:
            found = self._consumer.list_topics(self._plan.topic, timeout=_WAIT_S * 5)
        except KafkaException:  # the broker is away; the read itself goes on waiting for it
            return
        added = sorted(set(found.topics[self._plan.topic].partitions) - known)
        known.update(added)
        if added:
            self._consumer.incremental_assign(
                [confluent_kafka.TopicPartition(self._plan.topic, partition, 0) for partition in added]
            )

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = error.str()
        if self._notify is not None and error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._notify(f"{self._connection.bootstrap} went away ({error.str()}): waiting for it")


def latest(partitions: list[list[ReceivedRecord]], count: int) -> list[ReceivedRecord]:
    """The `count` latest records over all partitions by timestamp, each partition's order kept."""
    taken: list[ReceivedRecord] = []
    while len(taken) < count:
        newest = max(
            (records for records in partitions if records),
            key=lambda records: records[-1].timestamp_ms or 0,
            default=None,
        )
        if newest is None:
            break
        taken.append(newest.pop())
    taken.reverse()
    return taken


def _received(message: Message) -> ReceivedRecord:
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers()  # a list of pairs, whatever the stub allows
    return ReceivedRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=None if kind == confluent_kafka.TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(headers) if headers else (),
    )
