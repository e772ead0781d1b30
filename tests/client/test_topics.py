import time

import pytest

from millstream.client.cluster import describe_cluster
from millstream.client.errors import BrokerRefused, TopicExists, UnknownTopic
from millstream.client.session import AdminSession
from millstream.client.topics import (
    add_partitions,
    alter_topic_configs,
    create_topic,
    delete_topics,
    describe_topic,
    list_topics,
    topic_configs,
    topic_names,
)
from tests.client.target import unused_name


def overrides(session: AdminSession, topic: str) -> dict[str, str | None]:
    return {config.name: config.value for config in topic_configs(session, topic) if not config.is_default}


def become(session: AdminSession, topic: str, expected: dict[str, str]) -> bool:
    """Whether the overrides are soon as expected: a cluster spreads a change after acknowledging it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if overrides(session, topic) == expected:
            return True
        time.sleep(0.05)
    return False


def test_a_created_topic_is_listed_and_described(session: AdminSession) -> None:
    name = unused_name("orders")

    create_topic(session, name, partitions=2, config={"retention.ms": "1000"})

    (listed,) = [topic for topic in list_topics(session) if topic.name == name]
    assert (listed.partitions, listed.replicas, listed.is_internal) == (2, 1, False)
    described = describe_topic(session, name)
    assert [placement.partition for placement in described.partitions] == [0, 1]
    assert all(placement.leader is not None for placement in described.partitions)
    assert overrides(session, name) == {"retention.ms": "1000"}


def test_creating_it_again_is_refused(session: AdminSession, topic: str) -> None:
    with pytest.raises(TopicExists, match="exists already"):
        create_topic(session, topic)


def test_validating_only_creates_nothing(session: AdminSession) -> None:
    name = unused_name("maybe")

    create_topic(session, name, validate_only=True)

    assert name not in topic_names(session)


def test_asking_for_a_topic_does_not_create_it(session: AdminSession, topic: str) -> None:
    mistyped = topic[:-1]

    with pytest.raises(UnknownTopic, match=f"did you mean '{topic}'"):
        describe_topic(session, mistyped)
    with pytest.raises(UnknownTopic):
        topic_configs(session, mistyped)

    assert mistyped not in topic_names(session)


def test_deleting_one_that_is_not_there_still_deletes_the_others(session: AdminSession, topic: str) -> None:
    with pytest.raises(UnknownTopic, match="nowhere"):
        delete_topics(session, ["nowhere", topic])

    assert topic not in topic_names(session)


def test_changing_a_setting_leaves_the_others_alone(session: AdminSession, topic: str) -> None:
    alter_topic_configs(session, topic, set_values={"retention.ms": "1000", "segment.ms": "2000"})

    alter_topic_configs(session, topic, set_values={"retention.ms": "3000"})

    assert become(session, topic, {"retention.ms": "3000", "segment.ms": "2000"})


def test_a_setting_goes_back_to_its_default(session: AdminSession, topic: str) -> None:
    alter_topic_configs(session, topic, set_values={"retention.ms": "1000", "segment.ms": "2000"})

    alter_topic_configs(session, topic, reset=["retention.ms"])

    assert become(session, topic, {"segment.ms": "2000"})


def test_a_wrong_value_is_refused_in_the_brokers_words(session: AdminSession, topic: str) -> None:
    with pytest.raises(BrokerRefused, match=r"retention\.ms.*INVALID_CONFIG"):
        alter_topic_configs(session, topic, set_values={"retention.ms": "soon"})


def test_settings_of_an_unknown_topic_are_not_changed(session: AdminSession) -> None:
    with pytest.raises(UnknownTopic):
        alter_topic_configs(session, unused_name("gone"), set_values={"retention.ms": "1"})


def test_partitions_are_added_and_never_taken_away(session: AdminSession, topic: str) -> None:
    add_partitions(session, topic, 5)

    assert len(describe_topic(session, topic).partitions) == 5
    with pytest.raises(BrokerRefused, match="INVALID_PARTITIONS"):
        add_partitions(session, topic, 2)


def test_the_cluster_tells_its_brokers(session: AdminSession) -> None:
    cluster = describe_cluster(session)

    assert cluster.cluster_id
    assert f"{cluster.brokers[0].host}:{cluster.brokers[0].port}" == session.connection.bootstrap
