"""How many records a second does one client get out, and what does each GB cost the server?"""

import time

from benchmarks.clients import bulk_producer, read_all
from benchmarks.measures import Figures, Question, Row, Size, cpu_seconds
from benchmarks.peers import Peer

_VALUE_SIZES = {"100b": 100, "1kb": 1_000}


def _count(size: Size, label: str) -> int:
    return size.records_100b if label == "100b" else size.records_1kb


def _prepare(peer: Peer, size: Size) -> None:
    for label, value_size in _VALUE_SIZES.items():
        topic = peer.new_topic()
        producer = bulk_producer(peer)
        producer.send_many(topic, b"x" * value_size, _count(size, label))
        producer.finish()
        peer.prepared[f"consume.{label}"] = topic


def _measure(peer: Peer, size: Size) -> Figures:
    figures: Figures = {}
    for label, value_size in _VALUE_SIZES.items():
        count, topic = _count(size, label), peer.prepared[f"consume.{label}"]
        # The CPU clock ticks in hundredths: several passes make enough of them to tell.
        cpu_before, started = cpu_seconds(peer.pid), time.perf_counter()
        for _ in range(size.read_passes):
            read_all(peer, topic, count)
        elapsed_s, cpu_s = time.perf_counter() - started, cpu_seconds(peer.pid) - cpu_before
        read = count * size.read_passes
        figures[f"consume.{label}"] = read / elapsed_s
        figures[f"consume.{label}.cpu"] = cpu_s / (read * value_size / 1e9)
    return figures


def _finish(peer: Peer) -> None:
    for label in _VALUE_SIZES:
        peer.delete_topic(peer.prepared.pop(f"consume.{label}"))


QUESTION = Question(
    name="consume",
    rows=(
        Row(key="consume.100b", title="consume 100 B", unit="records/s", more_is_better=True, bar=1.0),
        Row(key="consume.1kb", title="consume 1 KB", unit="records/s", more_is_better=True, bar=1.0),
        Row(
            key="consume.100b.cpu", title="server CPU out, 100 B", unit="s/GB", more_is_better=False, bar=1.0
        ),
        Row(key="consume.1kb.cpu", title="server CPU out, 1 KB", unit="s/GB", more_is_better=False, bar=1.0),
    ),
    prepare=_prepare,
    measure=_measure,
    finish=_finish,
)
