"""Where partitions begin and end, and which offset stood at which time.

Why: lag, resets, previews, rates and the disk outlook are all differences of offsets.
Invariants: `start <= end` for every span; an answer covers every partition that was asked for, or raises.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError

from millstream.client.errors import UnknownPartition, UnknownTopic
from millstream.client.library import EARLIEST, LATEST, MAX_TIMESTAMP, at_timestamp
from millstream.client.session import AdminSession
from millstream.client.topics import describe_topic
from millstream.model.topics import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """The readable offsets of a partition: `start` is the first, `end` the one the next record will get."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """Offsets in the span; records too, unless compaction or transactions left gaps."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOffset:
    offset: int
    timestamp_ms: int


def partitions_of(session: AdminSession, topic: str, only: Iterable[int] = ()) -> list[TopicPartition]:
    """The topic's partitions, or those of `only`. Raises UnknownTopic or UnknownPartition."""
    known = [placement.partition for placement in describe_topic(session, topic).partitions]
    wanted = sorted(set(only)) or known
    for partition in wanted:
        if partition not in known:
            raise UnknownPartition(topic, partition, len(known))
    return [TopicPartition(topic, partition) for partition in wanted]


def offset_spans(
    session: AdminSession, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetSpan]:
    """First and end offset of each partition."""
    wanted = list(partitions)
    ends = _list_offsets(session, dict.fromkeys(wanted, LATEST))
    starts = _list_offsets(session, dict.fromkeys(wanted, EARLIEST))
    # Retention may move the start between the two answers.
    return {p: OffsetSpan(start=starts[p].offset, end=max(ends[p].offset, starts[p].offset)) for p in wanted}


def offsets_at(
    session: AdminSession, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, TimedOffset | None]:
    """The first record of each partition at or after a time; None where every record is older."""
    asked = dict.fromkeys(partitions, at_timestamp(max(timestamp_ms, 0)))
    found = _list_offsets(session, asked)
    return {p: None if answer.offset < 0 else answer for p, answer in found.items()}


def newest(
    session: AdminSession, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, TimedOffset | None]:
    """The record with the largest timestamp of each partition; None where it is empty."""
    found = _list_offsets(session, dict.fromkeys(partitions, MAX_TIMESTAMP))
    return {p: None if answer.offset < 0 else answer for p, answer in found.items()}


def delete_records_before(
    session: AdminSession, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Delete what lies before the given offsets; returns the new first offsets. There is no way back."""
    wanted = [confluent_kafka.TopicPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
    answers, failures = session.ask_all(
        lambda admin, timeout: admin.delete_records(
            wanted, request_timeout=timeout, operation_timeout=timeout
        )
    )
    for key, error in failures.items():
        raise session.translated(error, f"{key.topic}-{key.partition}")
    return {TopicPartition(key.topic, key.partition): answer.low_watermark for key, answer in answers.items()}


def _list_offsets(
    session: AdminSession, specs: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, TimedOffset]:
    if not specs:
        return {}
    asked = {confluent_kafka.TopicPartition(p.topic, p.partition): spec for p, spec in specs.items()}
    answers, failures = session.ask_all(
        lambda admin, timeout: admin.list_offsets(asked, request_timeout=timeout), is_question=True
    )
    for key, error in failures.items():
        if error.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT):
            raise UnknownPartition(key.topic, key.partition)
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UnknownTopic(key.topic)
        raise session.translated(error, f"{key.topic}-{key.partition}")
    return {
        TopicPartition(key.topic, key.partition): TimedOffset(
            offset=answer.offset, timestamp_ms=answer.timestamp
        )
        for key, answer in answers.items()
    }
