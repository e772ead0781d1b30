"""Notification instead of vain polling: how many requests does a consumer make while nothing happens?

A Kafka consumer leaves one fetch waiting at the broker, which answers it when a record comes. A consumer that asks
every few milliseconds instead gets the record no sooner. Counted from the node's own /metrics.

python examples/07_idle_consumer.py                              a node runs inside this program
python examples/07_idle_consumer.py --bootstrap 127.0.0.1:9092 --http http://127.0.0.1:8642
"""

import argparse
import re
import time
import urllib.request
import uuid

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.testing import running_node

IDLE_SECONDS = 3.0
_FETCHES = re.compile(r'^millstream_requests_total\{api="Fetch"\} ([0-9.e+]+)', re.MULTILINE)


def show(bootstrap: str, http_url: str) -> None:
    topic = f"doorbell-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result()
    polling, late_ms = idle_fetches(bootstrap, http_url, topic, wait_ms=10)
    print(f"asking every 10 ms: {polling} fetch requests in {IDLE_SECONDS:g} s of silence,")
    print(f"                    and a record that came then was there after {late_ms:.1f} ms")
    waiting, late_ms = idle_fetches(bootstrap, http_url, topic, wait_ms=20_000)
    print(f"waiting to be told: {waiting} fetch requests in {IDLE_SECONDS:g} s of silence,")
    print(f"                    and a record that came then was there after {late_ms:.1f} ms")


def idle_fetches(bootstrap: str, http_url: str, topic: str, *, wait_ms: int) -> tuple[int, float]:
    """(requests that a consumer makes while idle, how late it gets the next record in ms).

    `wait_ms`: how long the broker may keep a fetch that has no data.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{wait_ms}",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": wait_ms,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer.assign([TopicPartition(topic, 0)])
    ring(producer, topic, consumer)  # from here on the consumer has read everything
    before = fetches(http_url)
    silent_until = time.monotonic() + IDLE_SECONDS
    while (left := silent_until - time.monotonic()) > 0:
        consumer.poll(left)
    counted = fetches(http_url) - before
    began = time.monotonic()
    ring(producer, topic, consumer)
    late_ms = 1000 * (time.monotonic() - began)
    consumer.close()
    return counted, late_ms


def ring(producer: Producer, topic: str, consumer: Consumer) -> None:
    """Send records until the consumer has one: before its first fetch it has no place yet."""
    while True:
        producer.produce(topic, value=b"ding")
        producer.flush()
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            return


def fetches(http_url: str) -> int:
    with urllib.request.urlopen(f"{http_url}/metrics") as answer:
        found = _FETCHES.search(answer.read().decode())
    return int(float(found.group(1))) if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="a broker that is there; without it, a node runs in this program")
    parser.add_argument("--http", default="http://127.0.0.1:8642", help="its HTTP address")
    chosen = parser.parse_args()
    if chosen.bootstrap:
        show(chosen.bootstrap, chosen.http)
        return
    with running_node() as node:
        show(node.bootstrap_servers, node.http_url)


if __name__ == "__main__":
    main()
