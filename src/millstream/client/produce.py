"""Sending records, with the acknowledgement counted and every failure in one sentence.

Why: the client library reports a failed record to a callback long after the call; a sender that forgets to
look loses data without a word.
Invariants: a record is counted in the report only when the broker acknowledged it (`acks=all`);
the first failure stops the sender; at most the library's own bounded queue is held in memory.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millstream.client.connection import Connection
from millstream.client.errors import BrokerTimedOut, InvalidOption, UnknownPartition, from_kafka_error
from millstream.client.records import OutgoingRecord
from millstream.model.errors import MillstreamError

_POLL_EVERY = 1_000  # records between looks at acknowledgements; polling each one halves the rate


@dataclass(slots=True, kw_only=True)
class ProduceReport:
    """What was acknowledged: per partition, first and last offset."""

    records: int = 0
    value_bytes: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)


class Sender:
    """Sends to one topic: `with Sender(connection, "orders") as sender: sender.send(record)`.

    Leaving the block waits for every acknowledgement, and raises if one is missing.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        compression: str = "none",
        delivery_timeout_s: float = 30.0,
        idempotent: bool = True,
    ) -> None:
        """Raises InvalidOption.

        `idempotent=False` starts half a second sooner (librdkafka asks for its producer id on a timer), at the
        price of a possible duplicate when an acknowledgement is lost: for a few records and no more.
        """
        self.report = ProduceReport()
        self._connection = connection
        self._topic = topic
        self._delivery_timeout_s = delivery_timeout_s
        self._failure: MillstreamError | None = None
        self._last_error = ""
        config: dict[str, Any] = connection.config(
            acks="all",
            enable_idempotence=idempotent,
            partitioner="murmur2_random",  # as Java's default: the same key lands in the same partition
            compression_type=compression,
            message_timeout_ms=int(delivery_timeout_s * 1_000),
        )
        config["error_cb"] = self._on_error
        try:
            self._producer = Producer(config)
        except KafkaException as error:
            raise InvalidOption(error.args[0].str()) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self._producer.purge()  # nothing is left after a flush that succeeded
            self._producer.close()

    def send(self, record: OutgoingRecord) -> None:
        """Queue a record. Raises the failure of an earlier one; BrokerTimedOut when the queue stays full."""
        deadline = time.monotonic() + self._delivery_timeout_s
        while True:
            self._raise_failure()
            try:
                self._produce(record)
                break
            except BufferError:
                self._producer.poll(0.1)
                if time.monotonic() > deadline:
                    raise BrokerTimedOut(self._connection.bootstrap, "the queue stays full") from None
        if len(self._producer) % _POLL_EVERY == 0:
            self._producer.poll(0)

    def flush(self) -> ProduceReport:
        """Wait for every acknowledgement. Raises the first failure."""
        deadline = time.monotonic() + self._delivery_timeout_s + 5
        # Short waits, so that Ctrl-C is heard.
        while len(self._producer) and self._failure is None and time.monotonic() < deadline:
            self._producer.flush(0.2)
        self._producer.poll(0)
        self._raise_failure()
        if len(self._producer):
            raise BrokerTimedOut(
                self._connection.bootstrap, f"{len(self._producer)} records not acknowledged"
            )
        return self.report

    def _produce(self, record: OutgoingRecord) -> None:
        try:
            self._producer.produce(
                self._topic,
                value=record.value,
                key=record.key,
                partition=-1 if record.partition is None else record.partition,
                timestamp=0 if record.timestamp_ms is None else record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=self._on_delivery,
            )
        except KafkaException as failure:
            raise self._translated(failure.args[0], record.partition) from None

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if self._failure is None:
                self._failure = self._translated(error, message.partition())
            return
        partition, offset = message.partition() or 0, message.offset() or 0
        self.report.records += 1
        self.report.value_bytes += len(message)
        first, last = self.report.offsets.get(partition, (offset, offset))
        self.report.offsets[partition] = (min(first, offset), max(last, offset))

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def _translated(self, error: KafkaError, partition: int | None = None) -> MillstreamError:
        if error.code() == KafkaError._UNKNOWN_PARTITION and partition is not None:
            return UnknownPartition(self._topic, partition)
        if error.code() == KafkaError._MSG_TIMED_OUT and self._last_error:
            return BrokerTimedOut(self._connection.bootstrap, self._last_error)
        return from_kafka_error(error, bootstrap=self._connection.bootstrap, subject=self._topic)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def produce(
    connection: Connection,
    topic: str,
    records: Iterable[OutgoingRecord],
    *,
    compression: str = "none",
    idempotent: bool = True,
) -> ProduceReport:
    """Send all records and wait for their acknowledgement."""
    with Sender(connection, topic, compression=compression, idempotent=idempotent) as sender:
        for record in records:
            sender.send(record)
    return sender.report
