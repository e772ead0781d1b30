"""How much memory is held after the run, and how soon does a fresh process answer?

Memory is read from the brokers that served the other questions, so it is asked last. A start is measured on a
process of its own, with nothing in its directory: from its creation to the first Metadata answer over a socket.
"""

import time

from tests.support.kafka_peer import answers_metadata, running_kafka
from tests.support.millstream_process import running_millstream

from benchmarks.measures import Figures, Question, Row, Size, memory_bytes
from benchmarks.peers import KAFKA_JVM, Kind, Peer


def start_s(kind: Kind) -> float:
    """Seconds from process start to the first Metadata answer."""
    if kind == "kafka":
        with running_kafka(jvm_options=KAFKA_JVM) as kafka:
            return kafka.started_after_s
    with running_millstream({"log.fsync": "os"}) as node:
        while not answers_metadata(node.bootstrap_servers):
            pass
        return time.monotonic() - node.started_at


def _measure(peer: Peer, size: Size) -> Figures:
    return {
        "memory.resident": memory_bytes(peer.pid) / 1e6,
        "memory.anonymous": memory_bytes(peer.pid, "RssAnon") / 1e6,
        "start.cold": start_s(peer.kind),
    }


QUESTION = Question(
    name="memory_and_start",
    rows=(
        Row(
            key="memory.resident",
            title="memory after the run (resident)",
            unit="MB",
            more_is_better=False,
            bar=1 / 8,
        ),
        Row(key="memory.anonymous", title="of it without mapped files", unit="MB", more_is_better=False),
        Row(
            key="start.cold",
            title="cold start to first metadata",
            unit="s",
            more_is_better=False,
            bar=1 / 8,
            limit=0.5,
        ),
    ),
    measure=_measure,
)
