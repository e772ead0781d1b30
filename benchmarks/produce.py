"""How many records a second does one client get in, and what does that cost the server?"""

import time

from benchmarks.clients import bulk_producer
from benchmarks.measures import Figures, Question, Row, Size, cpu_seconds
from benchmarks.peers import Peer


def produced(peer: Peer, value_size: int, count: int) -> tuple[float, float]:
    """(records/s, server CPU seconds for each GB in) of one run into a fresh topic."""
    topic = peer.new_topic()
    producer = bulk_producer(peer)
    producer.client.list_topics(topic)
    cpu_before, started = cpu_seconds(peer.pid), time.perf_counter()
    producer.send_many(topic, b"x" * value_size, count)
    producer.finish()
    elapsed_s, cpu_s = time.perf_counter() - started, cpu_seconds(peer.pid) - cpu_before
    peer.delete_topic(topic)
    return count / elapsed_s, cpu_s / (count * value_size / 1e9)


def _measure(peer: Peer, size: Size) -> Figures:
    small, small_cpu = produced(peer, 100, size.records_100b)
    large, large_cpu = produced(peer, 1_000, size.records_1kb)
    return {
        "produce.100b": small,
        "produce.1kb": large,
        "produce.100b.cpu": small_cpu,
        "produce.1kb.cpu": large_cpu,
    }


QUESTION = Question(
    name="produce",
    rows=(
        Row(key="produce.100b", title="produce 100 B", unit="records/s", more_is_better=True, bar=1.15),
        Row(key="produce.1kb", title="produce 1 KB", unit="records/s", more_is_better=True, bar=1.15),
        Row(key="produce.100b.cpu", title="server CPU in, 100 B", unit="s/GB", more_is_better=False),
        Row(key="produce.1kb.cpu", title="server CPU in, 1 KB", unit="s/GB", more_is_better=False),
    ),
    measure=_measure,
)
