"""The one client all questions use, tuned the same way for both sides.

Why: librdkafka is what most people's programs stand on, and fast enough to let the broker show.
Invariants: settings differ between questions, never between peers; an error of any record ends the benchmark.
"""

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks.peers import PARTITIONS, QUIET, Peer

_TIMEOUT_S = 300


class CountingProducer:
    """A producer that hears only of failures, so that success costs the client nothing."""

    def __init__(self, peer: Peer, **config: Any) -> None:
        self.errors: list[KafkaError] = []
        settings = {
            "bootstrap.servers": peer.bootstrap_servers,
            "log_level": QUIET,
            "delivery.report.only.error": True,
            "on_delivery": self._failed,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.client = Producer(settings)

    def send_many(self, topic: str, value: bytes, count: int) -> None:
        """Hand over `count` records as fast as the client takes them."""
        produce, poll = self.client.produce, self.client.poll
        for _ in range(count):
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:
                    poll(0.01)

    def finish(self) -> None:
        """Wait until the broker has answered for every record."""
        left = self.client.flush(_TIMEOUT_S)
        if self.errors:
            raise KafkaException(self.errors[0])
        if left:
            raise TimeoutError(f"{left} records were not answered within {_TIMEOUT_S} s")

    def _failed(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)


def bulk_producer(peer: Peer) -> CountingProducer:
    """As a user who wants throughput would set it up."""
    return CountingProducer(
        peer,
        linger_ms=20,
        batch_num_messages=20_000,
        batch_size=1_000_000,
        queue_buffering_max_messages=500_000,
        queue_buffering_max_kbytes=1_000_000,
    )


def single_record_producer(peer: Peer) -> CountingProducer:
    """One record a request, no waiting for company."""
    return CountingProducer(peer, linger_ms=0, batch_num_messages=1, max_in_flight_requests_per_connection=5)


def read_all(peer: Peer, topic: str, count: int) -> None:
    """Read `count` records of a topic from its start, in large steps."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default librdkafka rests for a second whenever it has a hundred thousand records queued,
            # and then the clock measures its naps.
            "queued.max.messages.kbytes": 262_144,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 2,
            "log_level": QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    seen = 0
    while seen < count:
        # It waits for as many as it is asked for: never ask for more than there are.
        messages = consumer.consume(min(10_000, count - seen), timeout=_TIMEOUT_S)
        if not messages:
            raise TimeoutError(f"{seen} of {count} records within {_TIMEOUT_S} s")
        error = messages[-1].error()
        if error is not None:
            raise KafkaException(error)
        seen += len(messages)
    consumer.close()
