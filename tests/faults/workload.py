"""Clients that go on while the node dies under them, each in a thread, all writing one history.

Why: a crash is only interesting while something is under way: batches in flight, a group in the middle of a
rebalance, a topic being made, a segment being compacted.
Invariants: every value is sent by one call only; readers without a group keep their place over every restart; when
`stop` is set, each client finishes what it has begun and ends.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from millstream.testing.history import History, Invocation
from tests.faults.asking import Asking

IN_FLIGHT_MAX = 300
FLUSH_SECONDS = 60.0
PATIENT = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


class Crew:
    """Threads that are told to stop together; a client that breaks is a failure of the test."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.problems: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def hire(self, work: Callable[[], None], name: str) -> None:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self.problems.append(error)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def dismiss(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()


def writer(
    address: str,
    history: History,
    stop: threading.Event,
    *,
    name: str,
    topic: str,
    partitions: int,
    acks: int,
    idempotent: bool,
    pause_seconds: float = 0.004,
) -> Callable[[], None]:
    """Sends numbered values, a few at a time, to each partition in turn."""

    def delivered(call: Invocation) -> Callable[[KafkaError | None, Any], None]:
        def report(error: KafkaError | None, message: Any) -> None:
            if error is None and message.offset() >= 0:
                call.ok(offset=message.offset())
            else:
                call.info(str(error) if error is not None else "acknowledged without an offset")

        return report

    def work() -> None:
        settings = {"bootstrap.servers": address, "acks": acks, "linger.ms": 2, **PATIENT}
        settings |= {
            "enable.idempotence": idempotent,
            "message.timeout.ms": 60_000,
            "socket.timeout.ms": 10_000,
        }
        producer = Producer(settings)
        number = 0
        while not stop.is_set():
            for _ in range(random.randint(1, 4)):
                value = f"{name}:{number}"
                partition = number % partitions
                number += 1
                call = history.invoke(
                    name, "produce", topic=topic, partition=partition, value=value, acks=acks, idempotent=idempotent
                )  # fmt: skip
                producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered(call))
            producer.poll(pause_seconds)
            while len(producer) > IN_FLIGHT_MAX and not stop.is_set():
                producer.poll(0.05)
        producer.flush(FLUSH_SECONDS)

    return work


def putter(
    address: str, history: History, stop: threading.Event, *, name: str, topic: str, keys: int
) -> Callable[[], None]:
    """Overwrites the values of its own few keys of a compacted topic."""

    def work() -> None:
        settings = {
            "bootstrap.servers": address,
            "acks": -1,
            "enable.idempotence": True,
            "linger.ms": 2,
            **PATIENT,
        }
        producer = Producer({**settings, "message.timeout.ms": 60_000, "socket.timeout.ms": 10_000})
        number = 0
        while not stop.is_set():
            key = f"{name}-{number % keys}"
            call = history.invoke(name, "put", topic=topic, key=key, value=f"{number}")

            def report(error: KafkaError | None, message: Any, call: Invocation = call) -> None:
                if error is None:
                    call.ok(offset=message.offset())
                else:
                    call.info(str(error))

            producer.produce(topic, f"{number}".encode(), key=key.encode(), partition=0, on_delivery=report)
            number += 1
            producer.poll(0.002)
            while len(producer) > IN_FLIGHT_MAX and not stop.is_set():
                producer.poll(0.05)
        producer.flush(FLUSH_SECONDS)

    return work


def reader(
    address: str, history: History, stop: threading.Event, *, name: str, topic: str, partitions: int
) -> Callable[[], None]:
    """Reads everything from the beginning without a group; one run, whatever happens to the node."""

    def work() -> None:
        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": name, "enable.auto.commit": False,
             "auto.offset.reset": "error", "fetch.wait.max.ms": 100, **PATIENT}
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
        while not stop.is_set():
            record_polls(consumer.consume(500, timeout=0.2), history, name, run=name)
        consumer.close()

    return work


def group_member(
    address: str, history: History, stop: threading.Event, *, name: str, group: str, topic: str
) -> Callable[[], None]:
    """Reads its share, commits after each poll, joins again after every crash; ends when all was read."""

    def work() -> None:
        runs = Counter[str]()
        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False,
             "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "session.timeout.ms": 6000,
             "heartbeat.interval.ms": 200, **PATIENT}
        )  # fmt: skip
        consumer.subscribe([topic], on_assign=lambda *_: runs.update([name]))
        while not stop.is_set():
            polled = consumer.consume(200, timeout=0.2)
            run = f"{name}/{runs[name]}"
            positions = record_polls(polled, history, name, run=run, group=group)
            if positions:
                _commit(consumer, history, name, group, topic, positions)
        consumer.close()

    return work


def _commit(
    consumer: Consumer, history: History, name: str, group: str, topic: str, positions: dict[int, int]
) -> None:
    calls = {
        index: history.invoke(name, "commit", group=group, topic=topic, partition=index, offset=offset)
        for index, offset in positions.items()
    }
    offsets = [TopicPartition(topic, index, offset) for index, offset in positions.items()]
    try:
        answers = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        for call in calls.values():
            call.info(str(error))
        return
    for answer in answers or ():
        call = calls.pop(answer.partition)
        if answer.error is None:
            call.ok()
        else:
            call.info(str(answer.error))


def record_polls(
    messages: list[Any], history: History, name: str, *, run: str, **facts: Any
) -> dict[int, int]:
    """Write what was read into the history; returns the next offset of each partition that gave something."""
    records: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for message in messages:
        if message.error() is not None:
            continue
        place = (message.topic(), message.partition())
        records.setdefault(place, []).append((message.offset(), message.value().decode()))
    for (topic, partition), found in records.items():
        history.invoke(name, "poll", topic=topic, partition=partition, run=run, **facts).ok(records=found)
    return {partition: found[-1][0] + 1 for (_, partition), found in records.items()}


def caretaker(address: str, history: History, stop: threading.Event, *, shrinking: str) -> Callable[[], None]:
    """Makes, changes and deletes topics, and cuts the beginning of one off."""

    def work() -> None:
        client = Asking(address, history, "caretaker")
        chance = random.Random(7)
        number = 0
        while not stop.is_set():
            name = f"passing-{number}"
            number += 1
            if not client.create_topic(name, config={"retention.ms": "86400000"}):
                time.sleep(0.02)
                continue
            client.configure(name, {"retention.ms": str(90_000_000 + number)})
            if chance.random() < 0.5:
                client.delete_topic(name)
            client.describe_topic(name)
            with_end = _end_of(client, shrinking)
            if with_end > 0:
                client.delete_records(shrinking, chance.randint(0, with_end))
            time.sleep(0.05)
        client.close()

    return work


def _end_of(client: Asking, topic: str) -> int:
    try:
        return client.raw.end_offset(topic)
    except Exception:
        client.close()
        return 0


def prober(
    address: str, history: History, stop: threading.Event, *, topic: str, partitions: int
) -> Callable[[], None]:
    """Looks at watermarks, epochs and producer ids, again and again."""

    def work() -> None:
        client = Asking(address, history, "prober")
        number = 0
        while not stop.is_set():
            if not client.watermarks(topic, number % partitions):
                time.sleep(0.02)
            client.producer_id()
            number += 1
            time.sleep(0.02)
        client.close()

    return work
