"""What remains when every acknowledgement waits for the disk?

Kafka with `flush.messages=1` on the topic, Millstream with `log.fsync=always`: both have the bytes on disk before
they answer.
"""

from benchmarks.latency import synchronous_us
from benchmarks.measures import Figures, Question, Row, Size, percentile
from benchmarks.peers import Peer
from benchmarks.produce import produced
from benchmarks.requests import requests_answered


def _measure(peer: Peer, size: Size) -> Figures:
    rate, _ = produced(peer, 100, size.records_100b_fsync)
    answered, _ = requests_answered(peer, size.request_count_fsync)
    synchronous = synchronous_us(peer, size.sync_count_fsync)
    return {
        "fsync.produce.100b": rate,
        "fsync.requests.rate": answered,
        "fsync.sync.p50": percentile(synchronous, 0.50),
        "fsync.sync.p99": percentile(synchronous, 0.99),
    }


QUESTION = Question(
    name="fsync",
    rows=(
        Row(
            key="fsync.produce.100b",
            title="fsync: produce 100 B",
            unit="records/s",
            more_is_better=True,
            bar=1.0,
        ),
        Row(
            key="fsync.requests.rate",
            title="fsync: single-record requests, 8 clients",
            unit="requests/s",
            more_is_better=True,
            bar=4.0,
        ),
        Row(key="fsync.sync.p50", title="fsync: synchronous p50", unit="µs", more_is_better=False),
        Row(key="fsync.sync.p99", title="fsync: synchronous p99", unit="µs", more_is_better=False, bar=0.6),
    ),
    measure=_measure,
)
