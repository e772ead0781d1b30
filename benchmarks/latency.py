"""How long does one record take: to be acknowledged, and to reach a reader while 1,000 a second flow?"""

import threading
import time

from confluent_kafka import Consumer, TopicPartition

from benchmarks.clients import CountingProducer
from benchmarks.measures import Figures, Question, Row, Size, percentile
from benchmarks.peers import PARTITIONS, QUIET, Peer

_RATE = 1_000
_CONNECT = 20  # the first records also wait for connections
_SETTLE_S = 1.0


def synchronous_us(peer: Peer, count: int) -> list[float]:
    """Microseconds from produce to acknowledgement, one record at a time."""
    topic = peer.new_topic()
    producer = CountingProducer(peer, linger_ms=0, acks="all")
    samples = []
    for number in range(_CONNECT + count):
        started = time.perf_counter()
        producer.client.produce(topic, b"x" * 100, partition=number % PARTITIONS)
        producer.finish()
        samples.append((time.perf_counter() - started) * 1e6)
    peer.delete_topic(topic)
    return samples[_CONNECT:]


def end_to_end_ms(peer: Peer, duration_s: float) -> list[float]:
    """Milliseconds from produce to poll, at a steady rate, producer and consumer in this process."""
    topic = peer.new_topic()
    total = int((duration_s + _SETTLE_S) * _RATE)
    samples: list[float] = []
    first_arrived = threading.Event()
    consumer = _reader(peer, topic)

    def read() -> None:
        while len(samples) < total:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                sent_ns = int(message.value() or b"0")
                samples.append((time.perf_counter_ns() - sent_ns) / 1e6)
                first_arrived.set()

    reader = threading.Thread(target=read)
    reader.start()
    _send_at_rate(peer, topic, total, first_arrived)
    reader.join()
    consumer.close()
    peer.delete_topic(topic)
    return samples[int(_SETTLE_S * _RATE) :]


def _reader(peer: Peer, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "log_level": QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    return consumer


def _send_at_rate(peer: Peer, topic: str, total: int, first_arrived: threading.Event) -> None:
    """The first record alone, to have both ends connected; then the rest by the clock."""
    producer = CountingProducer(peer, linger_ms=0, acks="all")
    producer.client.produce(topic, b"%d" % time.perf_counter_ns(), partition=0)
    producer.finish()
    first_arrived.wait()
    started = time.perf_counter()
    for number in range(1, total):
        wait_s = started + number / _RATE - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        producer.client.produce(topic, b"%d" % time.perf_counter_ns(), partition=number % PARTITIONS)
        producer.client.poll(0)
    producer.finish()


def _measure(peer: Peer, size: Size) -> Figures:
    synchronous = synchronous_us(peer, size.sync_count)
    flowing = end_to_end_ms(peer, size.paced_s)
    return {
        "latency.sync.p50": percentile(synchronous, 0.50),
        "latency.sync.p99": percentile(synchronous, 0.99),
        "latency.flow.p50": percentile(flowing, 0.50),
        "latency.flow.p99": percentile(flowing, 0.99),
    }


QUESTION = Question(
    name="latency",
    rows=(
        Row(
            key="latency.sync.p50", title="synchronous produce p50", unit="µs", more_is_better=False, bar=1.0
        ),
        Row(
            key="latency.sync.p99", title="synchronous produce p99", unit="µs", more_is_better=False, bar=0.6
        ),
        Row(key="latency.flow.p50", title="end to end at 1,000/s p50", unit="ms", more_is_better=False),
        Row(
            key="latency.flow.p99",
            title="end to end at 1,000/s p99",
            unit="ms",
            more_is_better=False,
            bar=0.6,
        ),
    ),
    measure=_measure,
)
