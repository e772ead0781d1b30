"""Two members of a group share the work; when one leaves, the other takes over what it did.

python examples/02_consumer_group.py                              a node runs inside this program
python examples/02_consumer_group.py --bootstrap 127.0.0.1:9092   or use one that is there
"""

import argparse
import uuid

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.testing import running_node

PARTITIONS = 4
ORDERS = 200


def show(bootstrap: str) -> None:
    topic = f"orders-{uuid.uuid4().hex[:6]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result()

    anna, ben = member(bootstrap, topic), member(bootstrap, topic)
    while len(anna.assignment()) != PARTITIONS // 2 or len(ben.assignment()) != PARTITIONS // 2:
        anna.poll(0.1)
        ben.poll(0.1)
    print(f"two members: anna has partitions {parts(anna)}, ben has {parts(ben)}")

    send(bootstrap, topic, range(ORDERS))
    by_anna: list[int] = []
    by_ben: list[int] = []
    while len(by_anna) + len(by_ben) < ORDERS:
        by_anna += take(anna)
        by_ben += take(ben)
    print(
        f"anna got {len(by_anna)}, ben got {len(by_ben)}: {len({*by_anna, *by_ben})} different orders of {ORDERS}"
    )

    ben.close()  # commits and leaves
    while len(anna.assignment()) != PARTITIONS:
        anna.poll(0.1)
    print(f"ben has left: anna has partitions {parts(anna)}")

    send(bootstrap, topic, range(ORDERS, 2 * ORDERS))
    alone: list[int] = []
    while len(alone) < ORDERS:
        alone += take(anna)
    anna.close()
    print(
        f"anna alone got {len(alone)}, none of them twice: {sorted(alone) == list(range(ORDERS, 2 * ORDERS))}"
    )


def member(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-packers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    return consumer


def parts(consumer: Consumer) -> list[int]:
    return sorted(each.partition for each in consumer.assignment())


def send(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, key=f"customer-{number % 50}", value=str(number))
    producer.flush()


def take(consumer: Consumer) -> list[int]:
    messages = consumer.consume(100, timeout=0.1)
    return [int(message.value()) for message in messages if message.error() is None]


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
