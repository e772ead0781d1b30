"""A broker in a test: no Docker, no Java, no port to choose.

pytest examples/05_node_in_a_test.py

The fixture `millstream_node` is there as soon as Millstream is installed. `running_node` does the same as a
context manager, with settings of your own.
"""

from confluent_kafka import Consumer, Producer

from millstream.testing import RunningNode, running_node


class OrderCounter:
    """Something of yours that reads a topic."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "counter", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe(["orders"])

    def count_until(self, total: int) -> None:
        while self.count < total:
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                self.count += 1

    def close(self) -> None:
        self._consumer.close()


def send_orders(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce("orders", key=str(number), value=f"order {number}")
    assert producer.flush(60) == 0


def test_every_order_is_counted(millstream_node: RunningNode) -> None:
    send_orders(millstream_node.bootstrap_servers, 100)
    counter = OrderCounter(millstream_node.bootstrap_servers)

    counter.count_until(100)

    counter.close()
    assert counter.count == 100


def test_counting_goes_on_where_it_stopped_when_the_broker_restarts() -> None:
    with running_node(settings={"num.partitions": 3}) as node:
        send_orders(node.bootstrap_servers, 10)
        first = OrderCounter(node.bootstrap_servers)
        first.count_until(10)
        first.close()

        node.restart()  # the same data, the same ports

        send_orders(node.bootstrap_servers, 5)
        second = OrderCounter(node.bootstrap_servers)
        second.count_until(5)
        second.close()

        assert (first.count, second.count) == (10, 5)
