"""Readers: members of groups, and one that replays everything.

Why: a group divides the partitions among its members and remembers how far it has come; a replay needs no group.
Invariants: an offset is stored after its event was entered in the ledger, so a crash repeats events and never
skips one (at least once).
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from events import number_of
from ledger import Received

_AT_ONCE = 500
_SILENCE_SECONDS_MAX = 120.0


class GroupMember(threading.Thread):
    def __init__(self, group: str, member: str, received: Received, *, bootstrap: str) -> None:
        super().__init__(name=f"{group}-{member}", daemon=True)
        self.stopping = threading.Event()
        self.partitions: list[str] = []
        self.group = group
        self.member = member
        self._received = received
        received.by_member[member] = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": f"{group}-{member}",
                "group.id": group,
                "auto.offset.reset": "earliest",
                # What was stored is committed twice a second; events are stored when they are in the ledger.
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe(
            list(self._received.topics),
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        while not self.stopping.is_set():
            with suppress(KafkaException):  # the node is away: the client keeps knocking
                for message in self._consumer.consume(_AT_ONCE, timeout=0.2):
                    topic, value = message.topic(), message.value()
                    if message.error() is None and topic is not None and value is not None:
                        self._received.add(self.member, topic, number_of(value))
                        with suppress(KafkaException):  # the partition went to another member meanwhile
                            self._consumer.store_offsets(message)
        with suppress(KafkaException):
            self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.partitions = sorted(f"{each.topic}-{each.partition}" for each in partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.partitions = []


def replay(bootstrap: str, partitions: dict[str, int], take: Callable[[str, int, bytes, int], None]) -> None:
    """Read every record of every partition from the beginning; `take(topic, partition, key, number)` for each.

    Raises KafkaException, also when the node has been silent for _SILENCE_SECONDS_MAX.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "replay",
            "group.id": "replay-without-a-group",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    unfinished = {(topic, index) for topic, count in partitions.items() for index in range(count)}
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for topic, index in unfinished])
    heard_at = time.monotonic()
    try:
        while unfinished:
            messages = consumer.consume(_AT_ONCE, timeout=0.2)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENCE_SECONDS_MAX:
                raise KafkaException(
                    KafkaError(KafkaError._TIMED_OUT, f"nothing came of {sorted(unfinished)}")
                )
            for message in messages:
                topic, index = message.topic() or "", message.partition() or 0
                error = message.error()
                if error is None:
                    take(topic, index, message.key() or b"", number_of(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard((topic, index))
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        consumer.close()
