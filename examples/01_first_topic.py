"""A topic, three records in, three records out, with nothing but a Kafka client.

python examples/01_first_topic.py                              a node runs inside this program
python examples/01_first_topic.py --bootstrap 127.0.0.1:9092   or use one that is there
"""

import argparse
import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.testing import running_node


def show(bootstrap: str) -> None:
    topic = f"greetings-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result()
    print(f"created {topic}")

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for word in ("good", "morning", "millstream"):
        producer.produce(topic, key="hello", value=word)
    producer.flush()
    print("3 records acknowledged")

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    words = []
    while len(words) < 3:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            words.append(message.value().decode())
            print(f"offset {message.offset()}: {message.key().decode()} {words[-1]}")
    consumer.close()
    print(f"read back: {' '.join(words)}")


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
