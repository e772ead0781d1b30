"""A topic as a table: compaction keeps the last value of each key, and a null value removes the key.

python examples/04_compacted_table.py                              a node runs inside this program
python examples/04_compacted_table.py --bootstrap 127.0.0.1:9092   or use one that is there; its cleaner
                                                                   looks for work every log.cleaner.backoff.ms
"""

import argparse
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.testing import running_node

# The cleaner of this node looks for work more often than the default of 15 s.
SETTINGS = {"log.cleaner.backoff.ms": 200}

TABLE = {
    "cleanup.policy": "compact",
    "segment.ms": "500",  # only closed segments are compacted
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",  # a tombstone may go as soon as it has done its work
}


def show(bootstrap: str) -> None:
    topic = f"prices-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, config=TABLE)])[topic].result()

    producer = Producer({"bootstrap.servers": bootstrap})
    for cents in range(100, 200):
        for product in ("bread", "flour", "yeast"):
            producer.produce(topic, key=product, value=str(cents))
    producer.produce(topic, key="yeast", value=None)  # a tombstone: yeast is no longer sold
    producer.flush()
    print("301 records sent for 3 keys; the last one removes yeast")

    records = read(bootstrap, topic)
    while len(records) > 20:
        # The newest segment is never compacted: a record now and then closes the one before it.
        producer.produce(topic, key="bread", value="200")
        producer.flush()
        time.sleep(0.3)
        records = read(bootstrap, topic)
    print(
        f"after compaction {len(records)} records are left, offsets unchanged: the last is {records[-1][0]}"
    )

    table: dict[str, str] = {}
    for _, key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    print(f"the table: {dict(sorted(table.items()))}")


def read(bootstrap: str, topic: str) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record that is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "table-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, str, str | None]] = []
    while True:
        for message in consumer.consume(500, timeout=0.2):
            error = message.error()
            if error is None:
                value = message.value()
                found.append(
                    (message.offset(), message.key().decode(), None if value is None else value.decode())
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found


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
