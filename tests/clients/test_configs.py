"""Topic and broker configs, read and changed through the protocol.

`kafka_topic_configs.json` is Apache Kafka 4.3.0's own answer to DescribeConfigs: names, types, defaults.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kio.schema.errors import ErrorCode

from tests.clients.admin_types import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.clients.confluent import Confluent, error_code
from tests.clients.conftest import Broker
from tests.support.raw import RawConnection
from tests.support.waiting import DEADLINE_S, eventually

KAFKA_TOPIC_CONFIGS: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("kafka_topic_configs.json").read_text()
)
TYPE_NAMES = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list"}
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
SOURCE_TOPIC, SOURCE_STATIC_BROKER, SOURCE_DEFAULT = 1, 4, 5


class Configs:
    """The config requests for one resource."""

    def __init__(self, connection: RawConnection) -> None:
        self.connection = connection

    def described(
        self, name: str, *, kind: int = TOPIC, keys: list[str] | None = None, version: int = 4
    ) -> Any:
        wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        return self.connection.call(
            "describe_configs", version, resources=[wanted], include_synonyms=True
        ).results[0]

    def values(self, name: str, *, kind: int = TOPIC) -> dict[str, str | None]:
        return {each.name: each.value for each in self.described(name, kind=kind).configs}

    def altered(self, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
        """The answer to an incremental change."""
        configs = [{"name": key, "config_operation": what, "value": value} for key, what, value in changes]
        resource = {"resource_type": TOPIC, "resource_name": name, "configs": configs}
        answer = self.connection.call(
            "incremental_alter_configs", 1, resources=[resource], validate_only=validate_only
        )
        return answer.responses[0]

    def replaced(self, name: str, configs: dict[str, str], *, validate_only: bool = False) -> Any:
        """The answer to a change that names everything to keep."""
        listed = [{"name": key, "value": value} for key, value in configs.items()]
        resource = {"resource_type": TOPIC, "resource_name": name, "configs": listed}
        answer = self.connection.call("alter_configs", 2, resources=[resource], validate_only=validate_only)
        return answer.responses[0]


@pytest.fixture
def configs(connection: RawConnection) -> Configs:
    return Configs(connection)


def test_a_topic_has_every_config_that_kafka_has(configs: Configs, topic: str) -> None:
    names = {each.name for each in configs.described(topic).configs}

    assert names >= KAFKA_TOPIC_CONFIGS.keys()
    assert all(name.startswith("millstream.") for name in names - KAFKA_TOPIC_CONFIGS.keys())


def test_topic_configs_have_kafkas_defaults(configs: Configs, topic: str) -> None:
    found = configs.values(topic)

    expected = {name: row["default"] for name, row in KAFKA_TOPIC_CONFIGS.items()}
    assert {name: found[name] for name in expected} == expected


def test_topic_configs_have_kafkas_types(configs: Configs, topic: str) -> None:
    found = {each.name: TYPE_NAMES[each.config_type] for each in configs.described(topic).configs}

    expected = {name: row["type"] for name, row in KAFKA_TOPIC_CONFIGS.items()}
    assert {name: found[name] for name in expected} == expected


def test_a_set_config_is_told_apart_from_a_default(configs: Configs, clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, retention_ms=123_456_789)

    found = {each.name: each for each in configs.described(topic).configs}

    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("123456789", SOURCE_TOPIC)
    assert found["segment.bytes"].config_source == SOURCE_DEFAULT
    assert not any(each.read_only or each.is_sensitive for each in found.values())


def test_synonyms_name_the_brokers_setting(configs: Configs, topic: str) -> None:
    found = {each.name: each for each in configs.described(topic).configs}

    synonyms = [(each.name, each.value, each.source) for each in found["max.message.bytes"].synonyms]
    assert synonyms == [("message.max.bytes", "1048588", SOURCE_DEFAULT)]


def test_only_the_configs_asked_for_are_described(configs: Configs, topic: str) -> None:
    found = configs.described(topic, keys=["retention.ms", "no.such.config"])

    assert (found.error_code, [each.name for each in found.configs]) == (ErrorCode.none, ["retention.ms"])


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_describes(configs: Configs, topic: str, version: int) -> None:
    found = configs.described(topic, version=version)

    assert {each.name for each in found.configs} >= KAFKA_TOPIC_CONFIGS.keys()


def test_documentation_comes_when_it_is_asked_for(connection: RawConnection, topic: str) -> None:
    wanted = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}

    (found,) = connection.call("describe_configs", 4, resources=[wanted], include_documentation=True).results

    assert all(each.documentation for each in found.configs)


def test_describing_a_topic_that_is_not_there_is_refused(configs: Configs, unique: str) -> None:
    assert configs.described(unique).error_code == ErrorCode.unknown_topic_or_partition


def test_the_brokers_own_settings_are_described(configs: Configs) -> None:
    found = {each.name: each for each in configs.described("1", kind=BROKER).configs}

    assert found["auto.create.topics.enable"].value == "true"
    assert found["num.partitions"].value == "1"
    assert found["message.max.bytes"].value == "1048588"
    assert found["log.cleaner.backoff.ms"].config_source == SOURCE_STATIC_BROKER


def test_another_brokers_settings_are_refused(configs: Configs) -> None:
    assert configs.described("977", kind=BROKER).error_code == ErrorCode.invalid_request


def test_a_config_is_set_and_the_others_are_left(configs: Configs, clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, segment_ms=777_777)

    answer = configs.altered(topic, ("retention.ms", SET, "5000000"))

    assert answer.error_code == ErrorCode.none
    assert eventually(lambda: configs.values(topic)["retention.ms"] == "5000000")
    assert configs.values(topic)["segment.ms"] == "777777"


def test_a_deleted_config_returns_to_its_default(configs: Configs, clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, retention_ms=5_000_000)

    configs.altered(topic, ("retention.ms", DELETE, None))

    assert eventually(lambda: configs.values(topic)["retention.ms"] == "604800000")


def test_a_list_is_appended_to_and_subtracted_from(configs: Configs, topic: str) -> None:
    configs.altered(topic, ("cleanup.policy", APPEND, "compact"))
    eventually(
        lambda: set((configs.values(topic)["cleanup.policy"] or "").split(",")) == {"delete", "compact"}
    )

    configs.altered(topic, ("cleanup.policy", SUBTRACT, "delete"))

    assert eventually(lambda: configs.values(topic)["cleanup.policy"] == "compact")


def test_only_lists_are_appended_to(configs: Configs, topic: str) -> None:
    answer = configs.altered(topic, ("retention.ms", APPEND, "1"))

    assert answer.error_code == ErrorCode.invalid_config


def test_validating_a_change_changes_nothing(configs: Configs, topic: str) -> None:
    good = configs.altered(topic, ("retention.ms", SET, "5000000"), validate_only=True)
    bad = configs.altered(topic, ("retention.ms", SET, "never"), validate_only=True)

    assert (good.error_code, bad.error_code) == (ErrorCode.none, ErrorCode.invalid_config)
    assert configs.values(topic)["retention.ms"] == "604800000"


@pytest.mark.parametrize(
    ("name", "value"),
    [("no.such.config", "1"), ("retention.ms", "soon"), ("cleanup.policy", "shred"), ("segment.ms", "0")],
)
def test_a_bad_change_is_refused_and_nothing_changes(
    configs: Configs, topic: str, name: str, value: str
) -> None:
    answer = configs.altered(topic, ("segment.bytes", SET, "2097152"), (name, SET, value))

    assert answer.error_code == ErrorCode.invalid_config
    assert configs.values(topic)["segment.bytes"] == "1073741824"


def test_a_change_to_a_topic_that_is_not_there_is_refused(configs: Configs, unique: str) -> None:
    answer = configs.altered(unique, ("retention.ms", SET, "1000"))

    assert answer.error_code == ErrorCode.unknown_topic_or_partition


def test_the_older_request_replaces_all_configs(configs: Configs, clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, segment_ms=777_777)

    answer = configs.replaced(topic, {"retention.ms": "5000000"})

    assert answer.error_code == ErrorCode.none
    assert eventually(lambda: configs.values(topic)["retention.ms"] == "5000000")
    assert configs.values(topic)["segment.ms"] == "604800000"


def test_the_older_request_refuses_what_the_newer_refuses(configs: Configs, topic: str) -> None:
    assert configs.replaced(topic, {"no.such.config": "1"}).error_code == ErrorCode.invalid_config


def test_confluents_admin_reads_back_what_it_set(clients: Confluent, topic: str) -> None:
    entry = ConfigEntry("max.message.bytes", "54321", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])

    clients.admin.incremental_alter_configs([resource])[resource].result(timeout=DEADLINE_S)

    def value() -> str | None:
        found = clients.admin.describe_configs([resource])[resource].result(timeout=DEADLINE_S)
        return str(found["max.message.bytes"].value)

    assert eventually(lambda: value() == "54321")


def test_confluents_admin_is_told_of_an_unknown_topic(clients: Confluent, unique: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, unique)

    with pytest.raises(KafkaException) as refused:
        clients.admin.describe_configs([resource])[resource].result(timeout=DEADLINE_S)

    assert error_code(refused.value) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_config_without_meaning_here_is_refused_not_ignored(
    broker: Broker, configs: Configs, topic: str
) -> None:
    if not broker.is_millstream:
        pytest.skip("Kafka honours these")

    answers = [
        configs.altered(topic, (name, SET, value), validate_only=True).error_code
        for name, value in [("preallocate", "true"), ("unclean.leader.election.enable", "true")]
    ]

    assert answers == [ErrorCode.invalid_config, ErrorCode.invalid_config]
