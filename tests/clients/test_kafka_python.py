"""kafka-python 3: the pure Python client, with the newest request versions of the three."""

import time

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.admin import NewTopic  # type: ignore[import-untyped]
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError  # type: ignore[import-untyped]

from tests.clients.confluent import Confluent, values
from tests.support.waiting import DEADLINE_S, eventually


def consumer_of(clients: Confluent, *topics: str, **options: object) -> KafkaConsumer:
    settings: dict[str, object] = {
        "bootstrap_servers": clients.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "consumer_timeout_ms": 60_000,
        "heartbeat_interval_ms": 200,
    }
    return KafkaConsumer(*topics, **{**settings, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 0, "enable_idempotence": False},
        {"acks": 1, "enable_idempotence": False},
        {"acks": "all", "enable_idempotence": True},
    ],
)
def test_a_producer_sends_with_any_guarantee(
    clients: Confluent, topic: str, options: dict[str, object]
) -> None:
    producer = KafkaProducer(bootstrap_servers=clients.bootstrap_servers, **options)
    for number in range(50):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(timeout=DEADLINE_S)
    producer.close()

    assert values(clients.read(topic, 50)) == [b"%d" % number for number in range(50)]


def test_a_batch_that_is_too_large_is_refused(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=1_000)
    producer = KafkaProducer(bootstrap_servers=clients.bootstrap_servers)

    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 2_000).get(timeout=DEADLINE_S)

    producer.close()


def test_a_group_goes_on_where_it_committed(clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])
    first = consumer_of(clients, topic, group_id=group)
    read = [next(first).value for _ in range(4)]
    first.commit()
    first.close()

    second = consumer_of(clients, topic, group_id=group)
    read += [next(second).value for _ in range(6)]
    second.close()

    assert read == [b"%d" % number for number in range(10)]


def test_members_of_a_group_share_the_partitions(clients: Confluent, unique: str, group: str) -> None:
    topic = clients.create_topic(unique, partitions=4)
    members = [consumer_of(clients, topic, group_id=group) for _ in range(2)]

    def shared() -> bool:
        for member in members:
            member.poll(timeout_ms=50)
        return [len(member.assignment()) for member in members] == [2, 2]

    assert eventually(shared)
    for member in members:
        member.close()


def test_offsets_are_found_sought_and_read(clients: Confluent, topic: str) -> None:
    start = int(time.time() * 1000) - 50_000
    producer = KafkaProducer(bootstrap_servers=clients.bootstrap_servers)
    for number in range(10):
        producer.send(topic, b"%d" % number, timestamp_ms=start + number)
    producer.flush(timeout=DEADLINE_S)
    producer.close()
    partition = TopicPartition(topic, 0)
    consumer = consumer_of(clients)
    consumer.assign([partition])

    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    assert consumer.offsets_for_times({partition: start + 5})[partition].offset == 5
    consumer.seek(partition, 8)
    assert [next(consumer).value for _ in range(2)] == [b"8", b"9"]
    consumer.close()


def test_an_administrator_does_the_rounds(clients: Confluent, unique: str, group: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=clients.bootstrap_servers)
    admin.create_topics([NewTopic(unique, 2, 1, topic_configs={"retention.ms": "5000000"})])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(unique, 2, 1)])
    eventually(lambda: unique in admin.list_topics())
    clients.send(unique, b"x")

    consumer = consumer_of(clients, unique, group_id=group)
    next(consumer)
    consumer.commit()
    consumer.close()

    assert group in str(admin.list_groups())
    assert unique in str(admin.list_group_offsets(group))
    assert "Empty" in str(admin.describe_groups([group]))
    assert unique in str(admin.describe_topics([unique]))
    assert admin.describe_cluster()
    admin.delete_groups([group])
    admin.delete_topics([unique])
    eventually(lambda: unique not in admin.list_topics())
    admin.close()
