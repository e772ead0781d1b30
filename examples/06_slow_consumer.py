"""The two questions of messaging: what if the producer is faster, and what if somebody is away?

Shows, on one topic that keeps only its newest records:
  1. a slow consumer falls behind, and neither the producer nor the fast consumer notices;
  2. one that stays away too long loses what retention has dropped, and is told so;
  3. a new reader gets everything that is still kept.

python examples/06_slow_consumer.py                              a node runs inside this program
python examples/06_slow_consumer.py --bootstrap 127.0.0.1:9092   or use one that is there; its retention is
                                                                 checked every log.retention.check.interval.ms
"""

import argparse
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.testing import running_node

# The node of this program checks retention more often than the default of 5 minutes.
SETTINGS = {"log.retention.check.interval.ms": 100}

RECORDS = 20_000
VALUE = b"x" * 100
KEEP = {"retention.bytes": str(4 << 20), "segment.bytes": str(1 << 20), "file.delete.delay.ms": "100"}


def show(bootstrap: str) -> None:
    topic = f"readings-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, config=KEEP)])[topic].result()
    one_is_slow(bootstrap, topic)
    one_is_away(bootstrap, topic)
    one_is_new(bootstrap, topic)


def one_is_slow(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, 10)
    slow = reader(bootstrap, topic, "slow")
    read(slow, 10)  # and then it is busy with these ten for the rest of the show
    send(bootstrap, topic, RECORDS)
    fast = reader(bootstrap, topic, "fast")
    read(fast, RECORDS + 10)
    print("1. a slow consumer harms only itself")
    print(f"   fast: {lag(fast, topic)} records behind; slow: {lag(slow, topic)} records behind")
    fast.close()
    slow.close()


def one_is_away(bootstrap: str, topic: str) -> None:
    print("2. a consumer stays away while retention goes on")
    group = f"{topic}-slow"
    start = 0
    while start <= 10:  # its place is offset 10
        send(bootstrap, topic, RECORDS)
        start = watermarks(bootstrap, topic)[0]
        time.sleep(0.1)
    print(f"   retention has dropped everything before offset {start}; {group} stands at 10")
    back = reader(bootstrap, topic, "slow", reset="error")
    error = None
    while error is None:
        message = back.poll(1.0)
        error = message.error() if message is not None else None
    back.close()
    print(f"   it comes back and is told: {error.str()} ({error.name()})")
    print(f"   it has missed {start - 10} records, knows it, and decides: go on at the first that is kept")


def one_is_new(bootstrap: str, topic: str) -> None:
    start, end = watermarks(bootstrap, topic)
    new = Consumer({**_common(bootstrap, topic, "new"), "enable.partition.eof": True})
    new.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    offsets = [message.offset() for message in read_to_the_end(new)]
    new.close()
    print("3. a new reader replays what is kept")
    print(f"   offsets {offsets[0]} to {offsets[-1]}, all of [{start}, {end}): {len(offsets) == end - start}")


def _common(bootstrap: str, topic: str, name: str) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{name}", "enable.auto.commit": False}


def reader(bootstrap: str, topic: str, name: str, reset: str = "earliest") -> Consumer:
    consumer = Consumer({**_common(bootstrap, topic, name), "auto.offset.reset": reset})
    consumer.subscribe([topic])
    return consumer


def read(consumer: Consumer, count: int) -> None:
    """Read `count` records and commit them."""
    while count > 0:
        messages = [m for m in consumer.consume(min(count, 1_000), timeout=0.2) if m.error() is None]
        count -= len(messages)
    consumer.commit(asynchronous=False)


def read_to_the_end(consumer: Consumer) -> list[Message]:
    found: list[Message] = []
    while True:
        for message in consumer.consume(1_000, timeout=0.2):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found


def lag(consumer: Consumer, topic: str) -> int:
    place = TopicPartition(topic, 0)
    committed = consumer.committed([place], timeout=30)[0].offset
    return int(consumer.get_watermark_offsets(place, timeout=30)[1] - committed)


def watermarks(bootstrap: str, topic: str) -> tuple[int, int]:
    """(first offset that is kept, offset of the next record)."""
    consumer = Consumer(_common(bootstrap, topic, "watermarks"))
    start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.close()
    return int(start), int(end)


def send(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(count):
        producer.produce(topic, value=VALUE)
        producer.poll(0)
    producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="a broker that is there; without it, a node runs in this program")
    bootstrap = parser.parse_args().bootstrap
    if bootstrap:
        show(bootstrap)
        return
    with running_node(settings=SETTINGS) as node:
        show(node.bootstrap_servers)


if __name__ == "__main__":
    main()
