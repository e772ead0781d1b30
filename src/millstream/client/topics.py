"""Topics: list, describe, create, delete, configure, grow.

Why: the questions and changes that every tool and every room needs, as typed values.
Invariants: answers are sorted by name and partition; a topic that is not there is `UnknownTopic`, with the
names that come close; asking never creates a topic, whatever `auto.create.topics.enable` says.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, TopicCollection

from millstream.client.errors import UnknownTopic
from millstream.client.library import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from millstream.client.session import AdminSession

_VISIBLE_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    name: str
    partitions: int
    replicas: int
    is_internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlacement:
    partition: int
    leader: int | None
    """None while no broker leads the partition."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionPlacement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    name: str
    value: str | None
    """None when the broker hides it."""
    source: str
    is_default: bool
    """True unless it was set on this very topic."""
    is_read_only: bool


def list_topics(session: AdminSession) -> list[TopicSummary]:
    """Every topic of the cluster, the internal ones too."""
    found = session.metadata().topics
    return [
        TopicSummary(
            name=name,
            partitions=len(topic.partitions),
            replicas=max((len(p.replicas) for p in topic.partitions.values()), default=0),
            is_internal=name.startswith("__"),
        )
        for name, topic in sorted(found.items())
    ]


def topic_names(session: AdminSession) -> list[str]:
    return sorted(session.metadata().topics)


def describe_topic(session: AdminSession, name: str) -> TopicDescription:
    """Raises UnknownTopic, with close names."""
    return describe_topics(session, [name])[0]


def describe_topics(session: AdminSession, names: Sequence[str]) -> list[TopicDescription]:
    """In the order asked. Raises UnknownTopic for the first that is not there."""
    results, failures = session.ask_all(
        lambda admin, timeout: admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout),
        is_question=True,
    )
    for name, error in failures.items():
        raise _unknown(session, name) if _is_unknown(error) else session.translated(error, name)
    return [_description(results[name]) for name in names]


def create_topic(
    session: AdminSession,
    name: str,
    *,
    partitions: int | None = None,
    replicas: int | None = None,
    config: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic and return once it can be seen. Raises TopicExists; counts default to the broker's."""
    topic = NewTopic(
        name,
        num_partitions=partitions if partitions is not None else -1,
        replication_factor=replicas if replicas is not None else -1,
        config=dict(config or {}),
    )
    session.ask_each(
        lambda admin, timeout: admin.create_topics(
            [topic], validate_only=validate_only, request_timeout=timeout, operation_timeout=timeout
        )
    )
    if not validate_only:
        _wait_until(session, lambda: _partition_count(session, name) > 0)


def delete_topics(session: AdminSession, names: Sequence[str]) -> None:
    """Return once they are gone. Raises UnknownTopic for the first not there, after deleting the others."""
    deleted, failures = session.ask_all(
        lambda admin, timeout: admin.delete_topics(
            list(names), request_timeout=timeout, operation_timeout=timeout
        )
    )
    _wait_until(session, lambda: not deleted.keys() & session.metadata().topics.keys())
    for name, error in failures.items():
        raise _unknown(session, name) if _is_unknown(error) else session.translated(error, name)


def add_partitions(session: AdminSession, name: str, total: int, *, validate_only: bool = False) -> None:
    """Grow a topic to `total` partitions, and return once they can be seen; a total not greater is refused."""
    session.ask_each(
        lambda admin, timeout: admin.create_partitions(
            [NewPartitions(name, total)],
            validate_only=validate_only,
            request_timeout=timeout,
            operation_timeout=timeout,
        ),
        subject=name,
    )
    if not validate_only:
        _wait_until(session, lambda: _partition_count(session, name) == total)


def topic_configs(session: AdminSession, name: str) -> list[ConfigValue]:
    """Every setting of a topic, those at their default too. Raises UnknownTopic."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    results, failures = session.ask_all(
        lambda admin, timeout: admin.describe_configs([resource], request_timeout=timeout)
    )
    for error in failures.values():
        raise _unknown(session, name) if _is_unknown(error) else session.translated(error, name)
    entries: dict[str, Any] = results[resource]
    return [_config_value(entry) for _, entry in sorted(entries.items())]


def alter_topic_configs(
    session: AdminSession,
    name: str,
    *,
    set_values: Mapping[str, str] | None = None,
    reset: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Set some settings of a topic, and put others back to their default; the rest stay as they are."""
    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in (set_values or {}).items()
    ]
    changes += [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in reset]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    _, failures = session.ask_all(
        lambda admin, timeout: admin.incremental_alter_configs(
            [resource], validate_only=validate_only, request_timeout=timeout
        )
    )
    for error in failures.values():
        raise _unknown(session, name) if _is_unknown(error) else session.translated(error, name)


def _is_unknown(error: KafkaError) -> bool:
    return error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


def _unknown(session: AdminSession, name: str) -> UnknownTopic:
    return UnknownTopic(name, [known for known in topic_names(session) if not known.startswith("__")])


def _wait_until(session: AdminSession, is_done: Callable[[], bool]) -> None:
    """A cluster spreads a change after it has acknowledged it; whoever asks next should see it."""
    deadline = time.monotonic() + session.connection.timeout_s
    while not is_done() and time.monotonic() < deadline:
        time.sleep(_VISIBLE_PAUSE_S)


def _partition_count(session: AdminSession, name: str) -> int:
    """0 when the topic can't be seen."""
    results, _ = session.ask_all(
        lambda admin, timeout: admin.describe_topics(TopicCollection([name]), request_timeout=timeout)
    )
    return len(results[name].partitions) if name in results else 0


def _description(found: Any) -> TopicDescription:
    return TopicDescription(
        name=found.name,
        topic_id=str(found.topic_id),
        is_internal=bool(found.is_internal),
        partitions=tuple(
            PartitionPlacement(
                partition=p.id,
                leader=p.leader.id if p.leader is not None else None,
                replicas=tuple(node.id for node in p.replicas),
                in_sync=tuple(node.id for node in p.isr),
            )
            for p in sorted(found.partitions, key=lambda partition: partition.id)
        ),
    )


def _config_value(entry: Any) -> ConfigValue:
    source = ConfigSource(entry.source)
    return ConfigValue(
        name=entry.name,
        value=entry.value,
        source=source.name.lower(),
        is_default=source is not ConfigSource.DYNAMIC_TOPIC_CONFIG,
        is_read_only=bool(entry.is_read_only),
    )
