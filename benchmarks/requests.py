"""How many single-record requests a second do 8 clients get answered, and what does one cost the server?"""

import time

from benchmarks.clients import single_record_producer
from benchmarks.measures import Figures, Question, Row, Size, cpu_seconds
from benchmarks.peers import Peer

CLIENTS = 8
_TURN = 50


def requests_answered(peer: Peer, count: int) -> tuple[float, float]:
    """(requests/s, server CPU microseconds for each) with 8 producers that keep requests in flight."""
    topic = peer.new_topic()
    producers = [single_record_producer(peer) for _ in range(CLIENTS)]
    for producer in producers:
        producer.send_many(topic, b"x" * 100, 1)
        producer.finish()
    cpu_before, started = cpu_seconds(peer.pid), time.perf_counter()
    for _ in range(count // (CLIENTS * _TURN)):
        for producer in producers:
            producer.send_many(topic, b"x" * 100, _TURN)
    for producer in producers:
        producer.finish()
    elapsed_s, cpu_s = time.perf_counter() - started, cpu_seconds(peer.pid) - cpu_before
    sent = count // (CLIENTS * _TURN) * CLIENTS * _TURN
    peer.delete_topic(topic)
    return sent / elapsed_s, cpu_s / sent * 1e6


def _measure(peer: Peer, size: Size) -> Figures:
    rate, cpu_us = requests_answered(peer, size.request_count)
    return {"requests.rate": rate, "requests.cpu": cpu_us}


QUESTION = Question(
    name="requests",
    rows=(
        Row(
            key="requests.rate",
            title="single-record requests, 8 clients",
            unit="requests/s",
            more_is_better=True,
            bar=1.2,
        ),
        Row(
            key="requests.cpu",
            title="server CPU a single-record request",
            unit="µs",
            more_is_better=False,
        ),
    ),
    measure=_measure,
)
