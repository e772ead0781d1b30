"""Reading is not taking away: a new reader starts at the beginning, at an offset, or at a time.

python examples/03_replay.py                              a node runs inside this program
python examples/03_replay.py --bootstrap 127.0.0.1:9092   or use one that is there
"""

import argparse
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.testing import running_node

HOUR_MS = 3_600_000


def show(bootstrap: str) -> None:
    topic = f"temperatures-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result()

    midnight_ms = int(time.time() * 1000) - 24 * HOUR_MS
    producer = Producer({"bootstrap.servers": bootstrap})
    for hour in range(24):
        producer.produce(topic, value=f"hour {hour}", timestamp=midnight_ms + hour * HOUR_MS)
    producer.flush()

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-history",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    first = read_from(consumer, TopicPartition(topic, 0, OFFSET_BEGINNING))
    print(f"a first reader from the beginning: {len(first)} records")

    again = read_from(consumer, TopicPartition(topic, 0, OFFSET_BEGINNING))
    print(f"a second reader from the beginning: {len(again)} records, the same: {again == first}")

    from_offset = read_from(consumer, TopicPartition(topic, 0, 20))
    print(f"from offset 20: {', '.join(from_offset)}")

    # The offset of the first record that is not older than noon.
    noon = consumer.offsets_for_times([TopicPartition(topic, 0, midnight_ms + 12 * HOUR_MS)])[0]
    from_noon = read_from(consumer, noon)
    print(f"from noon: offset {noon.offset}, {from_noon[0]} to {from_noon[-1]}")
    consumer.close()


def read_from(consumer: Consumer, place: TopicPartition) -> list[str]:
    """Every value from `place` to the end."""
    consumer.assign([place])
    values: list[str] = []
    while True:
        for message in consumer.consume(100, timeout=0.2):
            error = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="a broker that is there; without it, a node runs in this program")
    bootstrap = parser.parse_args().bootstrap
    if bootstrap:
        show(bootstrap)
        return
    with running_node() as node:
        show(node.bootstrap_servers)


if __name__ == "__main__":
    main()
