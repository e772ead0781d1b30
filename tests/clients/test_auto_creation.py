"""Topics that come to be because somebody asked for them, and brokers that refuse to."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.clients.confluent import Confluent, error_code, poll_until, values
from tests.clients.conftest import running_broker
from tests.support.raw import RawConnection
from tests.support.raw_requests import RawRequests
from tests.support.waiting import DEADLINE_S, eventually


@pytest.fixture(scope="module")
def strict_clients() -> Iterator[Confluent]:
    """Clients of a broker that creates nothing by itself."""
    with running_broker({"auto.create.topics.enable": "false", "num.partitions": "3"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        with Confluent(broker.bootstrap_servers, admin) as clients:
            yield clients


def test_producing_to_a_new_name_creates_the_topic(clients: Confluent, unique: str) -> None:
    clients.send(unique, b"first")

    assert values(clients.read(unique, 1)) == [b"first"]
    assert len(clients.admin.list_topics(unique, timeout=DEADLINE_S).topics[unique].partitions) == 1


def test_a_metadata_request_creates_a_topic_if_it_allows_it(
    connection: RawConnection, raw: RawRequests, unique: str
) -> None:
    connection.call("metadata", 12, topics=[{"name": unique}], allow_auto_topic_creation=True)

    assert eventually(lambda: raw.topic_metadata(unique).error_code == ErrorCode.none)


def test_a_metadata_request_that_does_not_allow_it_creates_nothing(
    connection: RawConnection, raw: RawRequests, unique: str
) -> None:
    answer = connection.call("metadata", 12, topics=[{"name": unique}], allow_auto_topic_creation=False)

    assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition
    assert raw.topic_metadata(unique).error_code == ErrorCode.unknown_topic_or_partition


def test_an_illegal_name_is_not_created(connection: RawConnection) -> None:
    answer = connection.call("metadata", 12, topics=[{"name": "not legal"}], allow_auto_topic_creation=True)

    assert answer.topics[0].error_code == ErrorCode.invalid_topic_exception


def test_a_consumer_is_told_of_an_unknown_topic_unless_it_asks_for_creation(
    clients: Confluent, unique: str
) -> None:
    consumer = clients.consumer(unique)
    consumer.subscribe([unique])

    message = eventually(lambda: consumer.poll(1.0))

    error = message.error()
    assert error is not None
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_consumer_that_asks_for_creation_gets_the_topic(
    clients: Confluent, raw: RawRequests, unique: str
) -> None:
    consumer = clients.consumer(unique, allow_auto_create_topics=True)
    consumer.assign([TopicPartition(unique, 0)])

    poll_until([consumer], lambda: raw.topic_metadata(unique).error_code == ErrorCode.none)

    assert len(raw.topic_metadata(unique).partitions) == 1


def test_listing_all_topics_creates_none(connection: RawConnection) -> None:
    answer = connection.call("metadata", 12, topics=None, allow_auto_topic_creation=True)

    assert {each.error_code for each in answer.topics} <= {ErrorCode.none}


def test_with_auto_creation_off_producing_to_a_new_name_fails(strict_clients: Confluent, unique: str) -> None:
    with pytest.raises(KafkaException) as refused:
        strict_clients.send(unique, b"nowhere", topic_metadata_propagation_max_ms=500)

    assert error_code(refused.value) in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_with_auto_creation_off_metadata_creates_nothing(strict_clients: Confluent, unique: str) -> None:
    with RawConnection(strict_clients.bootstrap_servers) as connection:
        answer = connection.call("metadata", 12, topics=[{"name": unique}], allow_auto_topic_creation=True)

    assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition


def test_with_auto_creation_off_topics_can_still_be_created_on_purpose(
    strict_clients: Confluent, unique: str
) -> None:
    topic = strict_clients.create_topic(unique, partitions=2)

    strict_clients.send(topic, b"welcome")

    assert len(strict_clients.admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions) == 2


def test_a_topic_without_a_count_gets_num_partitions(strict_clients: Confluent, unique: str) -> None:
    with RawConnection(strict_clients.bootstrap_servers) as connection:
        wanted = {"name": unique, "num_partitions": -1, "replication_factor": -1}
        answer = connection.call("create_topics", 7, topics=[wanted], timeout=30_000, validate_only=True)

    assert answer.topics[0].num_partitions == 3
