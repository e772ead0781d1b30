"""aiokafka: the asyncio client, with the oldest request versions in the field."""

import asyncio

import pytest
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError  # type: ignore[import-untyped]

from tests.clients.confluent import Confluent, values
from tests.clients.parties import run


@pytest.mark.parametrize("options", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}])
def test_a_producer_sends_with_any_guarantee(
    clients: Confluent, topic: str, options: dict[str, object]
) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=clients.bootstrap_servers, **options) as producer:
            for number in range(50):
                await producer.send(topic, b"%d" % number, partition=0)

    run(send)

    assert values(clients.read(topic, 50)) == [b"%d" % number for number in range(50)]


def test_a_batch_that_is_too_large_is_refused(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=1_000)

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=clients.bootstrap_servers) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 2_000)

    run(send)


def test_members_of_a_group_share_and_go_on_where_they_committed(
    clients: Confluent, unique: str, group: str
) -> None:
    topic = clients.create_topic(unique, partitions=2)

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=clients.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    async def work() -> tuple[list[int], list[bytes]]:
        async with member() as first, member() as second:
            while sorted(map(len, (first.assignment(), second.assignment()))) != [1, 1]:
                await asyncio.sleep(0.05)
            async with AIOKafkaProducer(bootstrap_servers=clients.bootstrap_servers) as producer:
                for number in range(20):
                    await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
            got = [len([await each.getone() for _ in range(10)]) for each in (first, second)]
            for each in (first, second):
                await each.commit()
        clients.send(topic, b"after")
        async with member() as third:
            return got, [(await third.getone()).value]

    assert run(work) == ([10, 10], [b"after"])


def test_a_listener_sees_partitions_come_and_go(clients: Confluent, topic: str, group: str) -> None:
    seen: list[str] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            seen.append(f"-{len(revoked)}")

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            seen.append(f"+{len(assigned)}")

    async def work() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=clients.bootstrap_servers, group_id=group)
        consumer.subscribe([topic], listener=Listener())
        async with consumer:
            while not consumer.assignment():
                await asyncio.sleep(0.05)

    run(work)

    assert "+1" in seen


def test_offsets_are_found_sought_and_read(clients: Confluent, topic: str) -> None:
    sent = clients.send(topic, *[b"%d" % number for number in range(10)])
    partition = TopicPartition(topic, 0)

    async def read() -> tuple[int, int, int, bytes]:
        async with AIOKafkaConsumer(bootstrap_servers=clients.bootstrap_servers) as consumer:
            consumer.assign([partition])
            first = (await consumer.beginning_offsets([partition]))[partition]
            end = (await consumer.end_offsets([partition]))[partition]
            timed = (await consumer.offsets_for_times({partition: sent[0].timestamp()[1]}))[partition].offset
            consumer.seek(partition, 4)
            return first, end, timed, (await consumer.getone()).value

    assert run(read) == (0, 10, 0, b"4")


def test_topics_are_created_described_and_deleted(clients: Confluent, unique: str) -> None:
    async def work() -> tuple[int, bool]:
        admin = AIOKafkaAdminClient(bootstrap_servers=clients.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(unique, 2, 1)])
            described = await admin.describe_topics([unique])
            with pytest.raises(TopicAlreadyExistsError):
                raise_for_code(await admin.create_topics([NewTopic(unique, 2, 1)]))
            await admin.delete_topics([unique])
            while unique in await admin.list_topics():
                await asyncio.sleep(0.05)
            return len(described[0]["partitions"]), True
        finally:
            await admin.close()

    def raise_for_code(response: object) -> None:
        codes = [each[1] for each in response.topic_errors]  # type: ignore[attr-defined]
        if codes == [TopicAlreadyExistsError.errno]:
            raise TopicAlreadyExistsError

    assert run(work) == (2, True)
