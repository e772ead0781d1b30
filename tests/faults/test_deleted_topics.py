"""Deleting a topic, and dying on the way: it is gone or it is whole, and one of its name begins empty."""

import pytest
from kio.schema.errors import ErrorCode

from tests.faults.tools import faults, needs_shim
from tests.support.batches import values_batch
from tests.support.raw_requests import produce_body
from tests.support.waiting import eventually

ARCHIVED = {"segment.bytes": "1024", "millstream.archive.enable": "true", "retention.bytes": "1024"}
QUICK = {"log.retention.check.interval.ms": "30"}


def archived_topic(client, data):
    client.create_topic("orders", config=ARCHIVED)
    for number in range(12):
        client.raw.produce("orders", values_batch(b"%02d" % number * 100))
    eventually(lambda: list((data / "archive" / "orders-0").glob("*.log")))


@needs_shim
@pytest.mark.parametrize(
    "rule",
    ["rename:archive/orders-0.:1:1:before", "rename:topics/orders-0.:1:1:before"],
    ids=["archive", "topic"],
)
def test_a_deletion_that_was_cut_off_is_finished_and_a_new_topic_begins_empty(make_node, ask, rule):
    node = make_node(QUICK, environment=faults(rule))
    node.start()
    client = ask(node)
    archived_topic(client, node.data)
    client.delete_topic("orders")
    node.wait()

    node.environment = {}
    node.start()

    client = ask(node)
    assert client.raw.topic_metadata("orders").error_code == ErrorCode.unknown_topic_or_partition
    assert client.create_topic("orders", config=ARCHIVED)
    assert list(client.records("orders")) == []
    assert not (node.data / "quarantine").exists()
    eventually(lambda: not list(node.data.glob("*/*.deleted")))


def test_an_archive_that_nobody_deleted_is_set_aside_not_taken_over(make_node, ask):
    node = make_node(QUICK)
    node.start()
    stranger = node.data / "archive" / "orders-0"
    stranger.mkdir()
    (stranger / "00000000000000000000.log").write_bytes(b"older")

    client = ask(node)
    assert client.create_topic("orders")

    assert list(client.records("orders")) == []
    (kept,) = node.data.glob("quarantine/orders-0.*/00000000000000000000.log")
    assert kept.read_bytes() == b"older"


@needs_shim
def test_a_topic_whose_deletion_was_never_written_is_whole(make_node, ask):
    node = make_node(QUICK, environment=faults("pwrite:__cluster_metadata:2:2:before"))
    node.start()
    client = ask(node)
    archived_topic(client, node.data)
    client.delete_topic("orders")
    node.wait()

    node.environment = {}
    node.start()

    assert [offset for offset, _, _ in ask(node).records("orders")] == list(range(12))


def test_a_topic_can_be_deleted_and_made_again_at_once(make_node, ask):
    node = make_node()
    node.start()
    client = ask(node)
    for _ in range(30):
        assert client.create_topic("orders")
        client.raw.produce("orders", values_batch(b"a"))
        assert client.delete_topic("orders")
    assert client.create_topic("orders")
    node.kill()
    node.start()

    assert list(ask(node).records("orders")) == []


@pytest.mark.parametrize("name", ["__cluster_metadata", "__consumer_offsets", "__transaction_state"])
def test_the_node_s_own_topics_can_t_be_made_or_written_by_clients(make_node, ask, name):
    node = make_node()
    node.start()
    client = ask(node)
    client.create_topic("orders")

    assert not client.create_topic(name)
    client.connection.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert client.raw.produce(name, values_batch(b"harm")).error_code != 0

    node.kill()
    node.start()
    client = ask(node)
    assert client.raw.topic_metadata("orders").error_code == 0
    with pytest.raises(AssertionError):
        client.raw.create_topic("orders")


def test_producers_of_a_topic_that_is_deleted_meanwhile_are_all_answered(make_node, ask):
    node = make_node()
    node.start()
    client, other = ask(node), ask(node)
    client.create_topic("orders")
    sent = [
        client.connection.send("produce", 9, **produce_body("orders", values_batch(b"a"))) for _ in range(50)
    ]
    assert other.delete_topic("orders")

    answers = [client.connection.receive("produce", 9, number) for number in sent]

    codes = {answer.responses[0].partition_responses[0].error_code for answer in answers}
    assert codes <= {ErrorCode.none, ErrorCode.unknown_topic_or_partition}
