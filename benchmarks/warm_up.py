"""Both sides at working temperature before anything counts.

Why: a Java virtual machine compiles what it has run often enough; measured cold, Kafka would look slower than the
Kafka anybody runs. The questions are asked of warm brokers, even when only one of them is asked.
"""

from benchmarks.clients import bulk_producer, read_all
from benchmarks.latency import synchronous_us
from benchmarks.measures import Size
from benchmarks.peers import Peer
from benchmarks.requests import requests_answered


def warm_up(peer: Peer, size: Size) -> None:
    """Every path that a question takes, for a few seconds."""
    topic = peer.new_topic()
    producer = bulk_producer(peer)
    producer.send_many(topic, b"x" * 100, size.warm_up_records)
    producer.finish()
    for _ in range(2):
        read_all(peer, topic, size.warm_up_records)
    peer.delete_topic(topic)
    requests_answered(peer, size.warm_up_requests)
    synchronous_us(peer, size.warm_up_sync)
