"""confluent-kafka with the few moves that most cases make.

Why: a case should read as what is sent and what comes back, not as polling loops.
Invariants: every client made here is closed when the test ends; a delivery that fails raises KafkaException;
waiting ends at a deadline with what was seen so far.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.clients.admin_types import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.support.raw import RawConnection
from tests.support.raw_requests import RawRequests
from tests.support.waiting import DEADLINE_S, eventually

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record to send."""

    value: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    partition: int = -1


class Confluent:
    """Clients for one broker, made on demand."""

    def __init__(self, bootstrap_servers: str, admin: AdminClient) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = admin
        self._made = ExitStack()

    def __enter__(self) -> "Confluent":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._made.close()

    def create_topic(self, name: str, partitions: int = 1, **config: Any) -> str:
        """Create a topic and wait until it is served; `_` in a config's name stands for `.`."""
        wanted = {key.replace("_", "."): str(value) for key, value in config.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=wanted)
        self.admin.create_topics([new])[name].result(timeout=DEADLINE_S)
        with RawConnection(self.bootstrap_servers) as connection:
            RawRequests(connection).wait_until_served(name, partitions)
        return name

    def alter_topic(self, name: str, **config: str) -> None:
        """Set configs of a topic, leaving the others; `_` in a name stands for `.`."""
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(timeout=DEADLINE_S)

    def producer(self, **config: Any) -> Producer:
        """A producer; `_` in a setting's name stands for `.`."""
        return Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 1, **_dotted(config)})

    def consumer(self, group: str = "unused", **config: Any) -> Consumer:
        """A consumer, closed at the end of the test; reads from the beginning unless told otherwise."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "heartbeat.interval.ms": 200,  # a rebalance is learnt of at the next heartbeat
            **_dotted(config),
        }
        made = Consumer(settings)
        self._made.callback(_close_quietly, made)
        return made

    def send(self, topic: str, *records: Sent | bytes, **config: Any) -> list[Message]:
        """Send all and wait for every acknowledgement; the delivered messages in order of delivery."""
        return send_with(self.producer(**config), topic, records)

    def read(
        self, topic: str, count: int, *, partition: int = 0, offset: int = OFFSET_BEGINNING, **config: Any
    ) -> list[Message]:
        """The next `count` records of a partition, read without a group."""
        consumer = self.consumer(**config)
        assign_at(consumer, topic, partition, offset)
        return take(consumer, count)

    def read_to_end(self, topic: str, *, partition: int = 0, **config: Any) -> list[Message]:
        """Every record of a partition that can be read now."""
        consumer = self.consumer(**{"enable_partition_eof": True, **config})
        assign_at(consumer, topic, partition)
        return take_until_end(consumer)

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """(first offset, end offset) as the broker tells them now."""
        found = self.consumer().get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)
        assert found is not None
        return found


def assign_at(consumer: Consumer, topic: str, partition: int = 0, offset: int = OFFSET_BEGINNING) -> None:
    """Assign one partition. Asking for its watermarks first saves librdkafka half a second of backoff."""
    consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)
    consumer.assign([TopicPartition(topic, partition, offset)])


def send_with(producer: Producer, topic: str, records: Iterable[Sent | bytes]) -> list[Message]:
    """Send all through one producer, flush, and raise the first error of a delivery."""
    delivered: list[Message] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            delivered.append(message)

    for each in records:
        record = Sent(value=each) if isinstance(each, bytes) else each
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=record.partition,
            timestamp=record.timestamp_ms,
            on_delivery=on_delivery,
        )
        producer.poll(0)
    left = producer.flush(DEADLINE_S)
    if errors:
        raise KafkaException(errors[0])
    assert left == 0, f"{left} records were not acknowledged within {DEADLINE_S:g} s"
    return delivered


def take(consumer: Consumer, count: int, *, within_s: float = DEADLINE_S) -> list[Message]:
    """The next `count` records; raises KafkaException for an error, AssertionError after the deadline."""
    found: list[Message] = []
    deadline = time.monotonic() + within_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records within {within_s:g} s"
        for message in consumer.consume(count - len(found), timeout=0.2):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            found.append(message)
    return found


def take_until_end(consumer: Consumer, *, within_s: float = DEADLINE_S) -> list[Message]:
    """Every record before the end of the partition; the consumer reports that end."""
    found: list[Message] = []
    deadline = time.monotonic() + within_s
    while True:
        assert time.monotonic() < deadline, f"no end of partition within {within_s:g} s"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            return found
        else:
            raise KafkaException(error)


def first_while_sending(producer: Producer, topic: str, value: bytes, consumer: Consumer) -> Message:
    """The first record a consumer gets while more are sent: one that starts at the end needs fresh ones."""

    def received() -> Message | None:
        producer.produce(topic, value)
        producer.flush(DEADLINE_S)
        message = consumer.poll(0.3)
        return None if message is None or message.error() is not None else message

    return eventually(received, every_s=0)


def poll_until(
    consumers: Sequence[Consumer], condition: Callable[[], object], *, within_s: float = DEADLINE_S
) -> list[Message]:
    """Poll all consumers in turn until the condition holds; what they received meanwhile."""
    found: list[Message] = []
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {within_s:g} s"
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                found.append(message)
    return found


def values(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def error_code(error: BaseException) -> int:
    """The Kafka error code inside a KafkaException."""
    assert isinstance(error, KafkaException), error
    inner: KafkaError = error.args[0]
    return int(inner.code())


def _dotted(config: dict[str, object]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in config.items()}


def _close_quietly(consumer: Consumer) -> None:
    with suppress(RuntimeError):  # the test closed it
        consumer.close()
