"""What a restart leaves: everything that was acknowledged, and clients that go on by themselves.

The same for a clean stop and for a kill. Where Kafka forgets and Millstream must not, the test says so.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from tests.clients.confluent import Confluent, send_with, values
from tests.clients.conftest import KAFKA_ONLY, NODE_SETTINGS
from tests.support.batches import CODEC_NAMES, Batch, Item
from tests.support.kafka_jars import KafkaUnavailable
from tests.support.kafka_peer import running_kafka
from tests.support.millstream_process import running_millstream
from tests.support.raw import RawConnection
from tests.support.raw_groups import committed, committed_as, wait_for_coordinator
from tests.support.raw_requests import RawRequests
from tests.support.waiting import DEADLINE_S, eventually

IS_KAFKA = os.environ.get("MILLSTREAM_TEST_TARGET", "millstream") == "kafka"


class Node(Protocol):
    bootstrap_servers: str

    def start(self) -> None: ...
    def stop(self) -> object: ...
    def kill(self) -> None: ...


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node of its own, that a test may end."""
    if os.environ.get("MILLSTREAM_TEST_BOOTSTRAP") and not IS_KAFKA:
        pytest.skip("a broker given by its address can't be restarted")
    if IS_KAFKA:
        try:
            with running_kafka({**KAFKA_ONLY, **NODE_SETTINGS}) as kafka:
                yield kafka
        except KafkaUnavailable as reason:
            pytest.fail(f"MILLSTREAM_TEST_TARGET=kafka, but {reason}")
    else:
        with running_millstream(NODE_SETTINGS) as millstream:
            yield millstream


@dataclass(slots=True, kw_only=True)
class Before:
    """What was there before the restart, and what is open after it."""

    kind: str
    clients: Confluent
    producer: Producer
    topic: str
    emptied: str
    deleted: str
    group: str
    metadata: Any
    cluster_id: str
    producer_id: int
    producer_epoch: int

    def sequenced(self, sequence: int) -> bytes:
        return Batch(
            items=[Item(value=b"sequenced-%d" % sequence)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
        ).encode()


@pytest.fixture(scope="module", params=["stop", "kill"])
def before(request: pytest.FixtureRequest, node: Node) -> Iterator[Before]:
    """State of every kind, then the restart."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    with Confluent(node.bootstrap_servers, admin) as clients:
        prepared = prepare(request.param, clients)
        node.stop() if request.param == "stop" else node.kill()
        node.start()
        with RawConnection(node.bootstrap_servers) as connection:
            wait_for_coordinator(connection, prepared.group)
            RawRequests(connection).wait_until_served(prepared.topic, 2)
        yield prepared


def prepare(kind: str, clients: Confluent) -> Before:
    name = f"{kind}-{uuid.uuid4().hex[:8]}"
    topic = clients.create_topic(f"{name}-topic", partitions=2, retention_ms=5_000_000)
    emptied, deleted = clients.create_topic(f"{name}-emptied"), clients.create_topic(f"{name}-deleted")
    producer = clients.producer(enable_idempotence=True)
    for codec in CODEC_NAMES:
        clients.send(topic, *[b"%s-%d" % (codec.encode(), n) for n in range(20)], compression_type=codec)
    send_with(producer, emptied, [b"%d" % number for number in range(10)])
    up_to = TopicPartition(emptied, 0, 6)
    clients.admin.delete_records([up_to])[up_to].result(timeout=DEADLINE_S)
    clients.admin.delete_topics([deleted])[deleted].result(timeout=DEADLINE_S)
    with RawConnection(clients.bootstrap_servers) as connection:
        raw = RawRequests(connection)
        wait_for_coordinator(connection, f"{name}-group")
        committed_as(connection, topic, 7, group_id=f"{name}-group", metadata="before\x00")
        producer_id, epoch = raw.producer_id()
        prepared = Before(
            kind=kind,
            clients=clients,
            producer=producer,
            topic=topic,
            emptied=emptied,
            deleted=deleted,
            group=f"{name}-group",
            metadata=raw.topic_metadata(topic),
            cluster_id=connection.call("metadata", 9, topics=[]).cluster_id,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        for sequence in range(4):
            assert raw.produce(emptied, prepared.sequenced(sequence)).error_code == ErrorCode.none
    return prepared


@pytest.fixture
def restarted(before: Before) -> Iterator[RawRequests]:
    with RawConnection(before.clients.bootstrap_servers) as connection:
        yield RawRequests(connection)


def test_every_acknowledged_record_is_there(before: Before) -> None:
    found = [
        each.value()
        for partition in (0, 1)
        for each in before.clients.read_to_end(before.topic, partition=partition)
        if each.value() != b"later"
    ]

    expected = [b"%s-%d" % (codec.encode(), number) for codec in CODEC_NAMES for number in range(20)]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_stored_batches_kept_their_checksums_and_compression(before: Before, restarted: RawRequests) -> None:
    batches = [each for partition in (0, 1) for each in restarted.batches(before.topic, partition=partition)]

    assert all(batch.crc_holds for batch in batches)
    assert {batch.compression for batch in batches} == set(range(5))


def test_the_topic_is_the_same(before: Before, restarted: RawRequests) -> None:
    found = restarted.topic_metadata(before.topic)
    wanted = {"resource_type": 2, "resource_name": before.topic, "configuration_keys": ["retention.ms"]}
    described = restarted.connection.call("describe_configs", 4, resources=[wanted]).results[0]

    assert (found.topic_id, len(found.partitions)) == (before.metadata.topic_id, 2)
    assert described.configs[0].value == "5000000"


def test_the_cluster_is_the_same(before: Before, restarted: RawRequests) -> None:
    assert restarted.connection.call("metadata", 9, topics=[]).cluster_id == before.cluster_id


def test_a_deleted_topic_stays_deleted(before: Before, restarted: RawRequests) -> None:
    found = restarted.topic_metadata(before.deleted)

    assert found.error_code == ErrorCode.unknown_topic_or_partition


def test_committed_offsets_are_there_with_their_metadata(before: Before, restarted: RawRequests) -> None:
    assert committed(restarted.connection, before.group, before.topic) == (7, "before\x00")


def test_the_leader_epoch_never_goes_backwards(before: Before, restarted: RawRequests) -> None:
    old = {each.partition_index: each.leader_epoch for each in before.metadata.partitions}

    found = restarted.topic_metadata(before.topic).partitions

    assert all(each.leader_epoch >= old[each.partition_index] for each in found)


def test_a_fetch_with_the_old_epoch_is_fenced_once_the_epoch_has_moved(
    before: Before, restarted: RawRequests
) -> None:
    old = before.metadata.partitions[0].leader_epoch
    moved = restarted.leader_epoch(before.topic, before.metadata.partitions[0].partition_index) > old
    expected = ErrorCode.fenced_leader_epoch if moved else ErrorCode.none

    found = restarted.fetch(
        before.topic, 0, partition=before.metadata.partitions[0].partition_index, leader_epoch=old
    )

    # Epoch 0 was Kafka's before; it moves by one at each restart.
    assert found.error_code == expected


def test_the_old_epoch_ends_where_the_restart_was(before: Before, restarted: RawRequests) -> None:
    partition = before.metadata.partitions[0]
    last = restarted.batches(before.topic, partition=partition.partition_index)[-1]
    asked = [{"partition": partition.partition_index, "leader_epoch": last.leader_epoch}]

    answer = restarted.connection.call(
        "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": before.topic, "partitions": asked}]
    )

    found = answer.topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (last.leader_epoch, last.last_offset + 1)


def test_the_log_start_of_deleted_records_is_kept(before: Before) -> None:
    if IS_KAFKA and before.kind == "kill":
        pytest.skip("Kafka forgets a recent log start when it is killed; Millstream does not")

    assert before.clients.watermarks(before.emptied)[0] == 6


def test_the_last_batch_is_still_known_as_a_duplicate(before: Before, restarted: RawRequests) -> None:
    answer = restarted.produce(before.emptied, before.sequenced(3))

    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 13)


def test_older_batches_are_still_known_as_duplicates(before: Before, restarted: RawRequests) -> None:
    if IS_KAFKA:
        pytest.skip("Kafka knows only a producer's last batch after a restart; Millstream knows five")

    found = [restarted.produce(before.emptied, before.sequenced(number)).base_offset for number in range(4)]

    assert found == [10, 11, 12, 13]


def test_a_producer_goes_on_with_the_next_offset(before: Before) -> None:
    end = before.clients.watermarks(before.emptied)[1]

    sent = send_with(before.producer, before.emptied, [b"later"])

    assert [message.offset() for message in sent] == [end]


def test_a_new_group_reads_everything_after_the_restart(before: Before) -> None:
    consumer = before.clients.consumer(f"{before.group}-new")
    consumer.subscribe([before.topic])
    found: list[bytes | None] = []

    def all_read() -> bool:
        found.extend(values(each for each in consumer.consume(100, timeout=0.2) if each.error() is None))
        return len(found) >= 100

    assert eventually(all_read)
