"""Topics: created, described, grown, emptied and deleted, with Kafka's answer to each mistake."""

import uuid
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from kio.schema.errors import ErrorCode

from tests.clients.admin_types import NewPartitions, NewTopic
from tests.clients.confluent import Confluent, error_code, values
from tests.support.batches import values_batch
from tests.support.raw import RawConnection
from tests.support.raw_requests import RawRequests
from tests.support.waiting import DEADLINE_S, eventually


def created(connection: RawConnection, name: str, **fields: object) -> Any:
    """The answer for one topic of a CreateTopics request that only validates, unless told otherwise."""
    validate_only = fields.pop("validate_only", True)
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}
    answer = connection.call("create_topics", 7, topics=[wanted], timeout=30_000, validate_only=validate_only)
    return answer.topics[0]


def test_a_created_topic_is_listed_and_described(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=3)

    described = clients.admin.describe_topics(TopicCollection([topic]))[topic].result(timeout=DEADLINE_S)

    assert topic in clients.admin.list_topics(timeout=DEADLINE_S).topics
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert all(len(partition.replicas) == len(partition.isr) == 1 for partition in described.partitions)
    assert not described.is_internal


def test_the_answer_to_a_creation_tells_what_was_created(connection: RawConnection, unique: str) -> None:
    configs = [{"name": "retention.ms", "value": "5000000"}]

    answer = created(connection, unique, num_partitions=2, configs=configs, validate_only=False)

    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 2, 1)
    assert answer.topic_id is not None
    assert {each.name: each.value for each in answer.configs}["retention.ms"] == "5000000"


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_every_version_of_create_topics_creates(
    connection: RawConnection, raw: RawRequests, unique: str, version: int
) -> None:
    wanted = {"name": unique, "num_partitions": 2, "replication_factor": 1}

    answer = connection.call("create_topics", version, topics=[wanted], timeout=30_000, validate_only=False)

    assert answer.topics[0].error_code == ErrorCode.none
    assert eventually(lambda: len(raw.topic_metadata(unique).partitions) == 2)


def test_counts_left_to_the_broker_take_its_defaults(connection: RawConnection, unique: str) -> None:
    answer = created(connection, unique, num_partitions=-1, replication_factor=-1)

    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 1, 1)


def test_validate_only_creates_nothing(connection: RawConnection, raw: RawRequests, unique: str) -> None:
    answer = created(connection, unique, validate_only=True)

    assert answer.error_code == ErrorCode.none
    assert raw.topic_metadata(unique).error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_topic_that_exists_is_not_created_again(
    connection: RawConnection, topic: str, validate_only: bool
) -> None:
    answer = created(connection, topic, validate_only=validate_only)

    assert answer.error_code == ErrorCode.topic_already_exists
    assert topic in answer.error_message


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a:b", "caf\u00e9", "x" * 250])
def test_an_illegal_name_is_refused(connection: RawConnection, name: str) -> None:
    answer = created(connection, name)

    assert answer.error_code == ErrorCode.invalid_topic_exception
    assert answer.error_message


def test_the_longest_legal_name_is_taken(connection: RawConnection) -> None:
    assert created(connection, uuid.uuid4().hex + "x" * 217).error_code == ErrorCode.none


def test_names_that_differ_only_in_dot_and_underscore_collide(
    connection: RawConnection, clients: Confluent, unique: str
) -> None:
    clients.create_topic(f"{unique}.a")

    assert created(connection, f"{unique}_a").error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize("count", [0, -2])
def test_a_partition_count_below_one_is_refused(connection: RawConnection, unique: str, count: int) -> None:
    assert created(connection, unique, num_partitions=count).error_code == ErrorCode.invalid_partitions


def test_an_absurd_partition_count_is_refused(connection: RawConnection, unique: str) -> None:
    answer = created(connection, unique, num_partitions=1_000_000)

    assert answer.error_code in (ErrorCode.policy_violation, ErrorCode.invalid_partitions)


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_a_replication_factor_other_than_one_is_refused(
    connection: RawConnection, unique: str, factor: int
) -> None:
    answer = created(connection, unique, replication_factor=factor)

    assert answer.error_code == ErrorCode.invalid_replication_factor


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ([{"partition_index": 0, "broker_ids": [977]}], ErrorCode.invalid_replica_assignment),
        ([{"partition_index": 1, "broker_ids": [1]}], ErrorCode.invalid_replica_assignment),
        ([{"partition_index": 0, "broker_ids": [1, 1]}], ErrorCode.invalid_replica_assignment),
        ([{"partition_index": 0, "broker_ids": [1]}], ErrorCode.none),
    ],
)
def test_a_manual_assignment_must_fit_the_brokers(
    connection: RawConnection, unique: str, assignments: list[object], expected: ErrorCode
) -> None:
    answer = created(connection, unique, num_partitions=-1, replication_factor=-1, assignments=assignments)

    assert answer.error_code == expected


def test_a_manual_assignment_excludes_counts(connection: RawConnection, unique: str) -> None:
    answer = created(connection, unique, assignments=[{"partition_index": 0, "broker_ids": [1]}])

    assert answer.error_code == ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.config", "1"),
        ("message.format.version", "3.0"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("cleanup.policy", "shred"),
        ("segment.bytes", "100"),
        ("segment.ms", "0"),
        ("segment.jitter.ms", "-1"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "Never"),
        ("preallocate", "maybe"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("max.compaction.lag.ms", "0"),
        ("flush.messages", "0"),
        ("flush.ms", "-1"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_config_that_cannot_be_taken_is_refused(
    connection: RawConnection, unique: str, name: str, value: str | None
) -> None:
    answer = created(connection, unique, configs=[{"name": name, "value": value}])

    assert answer.error_code == ErrorCode.invalid_config
    assert answer.error_message


def test_one_bad_topic_does_not_spoil_the_others(clients: Confluent, unique: str) -> None:
    wanted = [NewTopic(f"{unique}-good", 1, 1), NewTopic(f"{unique}-bad", 0, 1)]

    answers = clients.admin.create_topics(wanted)

    assert answers[f"{unique}-good"].result(timeout=DEADLINE_S) is None
    with pytest.raises(KafkaException) as refused:
        answers[f"{unique}-bad"].result(timeout=DEADLINE_S)
    assert error_code(refused.value) == KafkaError.INVALID_PARTITIONS


def test_a_name_given_twice_in_one_request_is_refused(connection: RawConnection, unique: str) -> None:
    wanted = {"name": unique, "num_partitions": 1, "replication_factor": 1}

    answer = connection.call("create_topics", 7, topics=[wanted, wanted], timeout=30_000, validate_only=False)

    assert {each.error_code for each in answer.topics} == {ErrorCode.invalid_request}


def test_a_deleted_topic_is_gone_and_its_name_is_free(clients: Confluent, topic: str) -> None:
    clients.send(topic, b"old")

    clients.admin.delete_topics([topic])[topic].result(timeout=DEADLINE_S)
    eventually(lambda: topic not in clients.admin.list_topics(timeout=DEADLINE_S).topics)
    clients.create_topic(topic)
    clients.send(topic, b"new")

    assert values(clients.read_to_end(topic)) == [b"new"]


def test_a_topic_created_again_has_another_id(clients: Confluent, raw: RawRequests, topic: str) -> None:
    first = raw.topic_id(topic)

    clients.admin.delete_topics([topic])[topic].result(timeout=DEADLINE_S)
    eventually(lambda: topic not in clients.admin.list_topics(timeout=DEADLINE_S).topics)
    clients.create_topic(topic)

    assert raw.topic_id(topic) != first


def test_a_topic_is_deleted_by_its_id(connection: RawConnection, raw: RawRequests, topic: str) -> None:
    wanted = {"name": None, "topic_id": raw.topic_id(topic)}

    (answer,) = connection.call("delete_topics", 6, topics=[wanted], timeout=30_000).responses

    assert (answer.error_code, answer.name) == (ErrorCode.none, topic)
    assert eventually(lambda: raw.topic_metadata(topic).error_code == ErrorCode.unknown_topic_or_partition)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"name": "no-such-topic", "topic_id": None}, ErrorCode.unknown_topic_or_partition),
        ({"name": None, "topic_id": uuid.UUID(int=1 << 90)}, ErrorCode.unknown_topic_id),
        ({"name": None, "topic_id": None}, ErrorCode.invalid_request),
    ],
)
def test_deleting_what_is_not_there_is_refused(
    connection: RawConnection, wanted: dict[str, object], expected: ErrorCode
) -> None:
    (answer,) = connection.call("delete_topics", 6, topics=[wanted], timeout=30_000).responses

    assert answer.error_code == expected


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_older_versions_of_delete_topics_delete_by_name(
    connection: RawConnection, raw: RawRequests, topic: str, version: int
) -> None:
    (answer,) = connection.call("delete_topics", version, topic_names=[topic], timeout=30_000).responses

    assert answer.error_code == ErrorCode.none
    assert eventually(lambda: raw.topic_metadata(topic).error_code == ErrorCode.unknown_topic_or_partition)


def test_partitions_are_added_beside_those_that_hold_records(
    clients: Confluent, raw: RawRequests, topic: str
) -> None:
    clients.send(topic, b"kept")

    clients.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(timeout=DEADLINE_S)
    raw.wait_until_served(topic, 4)

    assert [clients.watermarks(topic, number) for number in range(4)] == [(0, 1), (0, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("count", "assignments", "expected"),
    [
        (2, None, ErrorCode.invalid_partitions),
        (1, None, ErrorCode.invalid_partitions),
        (0, None, ErrorCode.invalid_partitions),
        (-1, None, ErrorCode.invalid_partitions),
        (3, [{"broker_ids": [977]}], ErrorCode.invalid_replica_assignment),
        (4, [{"broker_ids": [1]}], ErrorCode.invalid_replica_assignment),
        (3, [{"broker_ids": [1]}], ErrorCode.none),
        (3, None, ErrorCode.none),
    ],
)
def test_a_topic_only_grows(
    connection: RawConnection,
    clients: Confluent,
    unique: str,
    count: int,
    assignments: list[object] | None,
    expected: ErrorCode,
) -> None:
    wanted = {"name": clients.create_topic(unique, partitions=2), "count": count, "assignments": assignments}

    (answer,) = connection.call(
        "create_partitions", 3, topics=[wanted], timeout=30_000, validate_only=True
    ).results

    assert answer.error_code == expected


def test_growing_a_topic_that_is_not_there_is_refused(clients: Confluent, unique: str) -> None:
    with pytest.raises(KafkaException) as refused:
        clients.admin.create_partitions([NewPartitions(unique, 4)])[unique].result(timeout=DEADLINE_S)

    assert error_code(refused.value) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_deleted_records_are_not_read_again(clients: Confluent, topic: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(20)])
    up_to = TopicPartition(topic, 0, 12)

    deleted = clients.admin.delete_records([up_to])[up_to].result(timeout=DEADLINE_S)

    assert deleted.low_watermark == 12
    assert clients.watermarks(topic) == (12, 20)
    assert values(clients.read_to_end(topic)) == [b"%d" % number for number in range(12, 20)]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (3, (ErrorCode.none, 3)),
        (-1, (ErrorCode.none, 8)),
        (8, (ErrorCode.none, 8)),
        (9, (ErrorCode.offset_out_of_range, -1)),
        (-2, (ErrorCode.offset_out_of_range, -1)),
    ],
)
def test_records_are_deleted_up_to_the_end_and_no_further(
    connection: RawConnection, raw: RawRequests, topic: str, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    raw.produce(topic, values_batch(*[b"x"] * 8))
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}

    answer = connection.call("delete_records", 2, topics=[wanted], timeout=30_000).topics[0].partitions[0]

    assert (answer.error_code, answer.low_watermark) == expected


def test_the_log_start_never_moves_back(connection: RawConnection, raw: RawRequests, topic: str) -> None:
    raw.produce(topic, values_batch(*[b"x"] * 8))

    def delete_before(offset: int) -> int:
        wanted = {"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}
        answer = connection.call("delete_records", 2, topics=[wanted], timeout=30_000)
        return int(answer.topics[0].partitions[0].low_watermark)

    assert [delete_before(offset) for offset in (6, 2, 6)] == [6, 6, 6]


def test_records_of_a_compacted_topic_are_not_deleted_by_offset(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, cleanup_policy="compact")
    up_to = TopicPartition(topic, 0, 0)

    with pytest.raises(KafkaException) as refused:
        clients.admin.delete_records([up_to])[up_to].result(timeout=DEADLINE_S)

    assert error_code(refused.value) == KafkaError.POLICY_VIOLATION


def test_the_cluster_is_described(clients: Confluent) -> None:
    described = clients.admin.describe_cluster().result(timeout=DEADLINE_S)

    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == clients.bootstrap_servers
    assert described.controller.id == node.id
    assert described.cluster_id


def test_a_topic_is_described_by_partition_pages(
    connection: RawConnection, clients: Confluent, unique: str
) -> None:
    topic = clients.create_topic(unique, partitions=5)

    first = connection.call(
        "describe_topic_partitions", 0, topics=[{"name": topic}], response_partition_limit=3, cursor=None
    )
    cursor = {
        "topic_name": first.next_cursor.topic_name,
        "partition_index": first.next_cursor.partition_index,
    }
    rest = connection.call(
        "describe_topic_partitions", 0, topics=[{"name": topic}], response_partition_limit=3, cursor=cursor
    )

    assert [each.partition_index for each in first.topics[0].partitions] == [0, 1, 2]
    assert [each.partition_index for each in rest.topics[0].partitions] == [3, 4]
    assert rest.next_cursor is None


def test_describing_a_topic_that_is_not_there_says_so(clients: Confluent, unique: str) -> None:
    with pytest.raises(KafkaException) as refused:
        clients.admin.describe_topics(TopicCollection([unique]))[unique].result(timeout=DEADLINE_S)

    assert error_code(refused.value) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_log_dirs_tell_the_size_of_each_partition(
    connection: RawConnection, clients: Confluent, topic: str
) -> None:
    clients.send(topic, b"x" * 10_000)

    answer = connection.call("describe_log_dirs", 4, topics=[{"topic": topic, "partitions": [0]}])

    (found,) = [each for directory in answer.results for each in directory.topics if each.name == topic]
    (partition,) = found.partitions
    assert 10_000 < partition.partition_size < 11_000
    assert answer.results[0].total_bytes > 0
