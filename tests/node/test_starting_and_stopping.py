"""A node starts in order, stops in order, and can be started again."""

import asyncio
import socket
import urllib.request

import pytest

from millstream.log.errors import DirectoryLocked
from millstream.model.errors import InvalidSetting
from millstream.model.settings import settings_from
from millstream.node.node import Node, Ports, PortTaken
from millstream.testing import running_node
from tests.support.batches import values_batch
from tests.support.raw import RawConnection
from tests.support.raw_requests import RawRequests


def port_of(address):
    return int(address.rpartition(":")[2])


def produce(node, topic, *values):
    with RawConnection(node.bootstrap_servers) as connection:
        return [RawRequests(connection).produce(topic, values_batch(value)).error_code for value in values]


def values_in(node, topic):
    with RawConnection(node.bootstrap_servers) as connection:
        return [item.value for batch in RawRequests(connection).batches(topic) for item in batch.items]


def create(node, topic):
    with RawConnection(node.bootstrap_servers) as connection:
        RawRequests(connection).create_topic(topic)


def test_the_ready_line_names_every_door():
    async def line():
        node = Node(settings_from({}), data=directory, ports=Ports(kafka=0, amqp=0, http=0))
        await node.start()
        try:
            return node.ready_line(), [node.address(name) for name in ("kafka", "amqp", "http")]
        finally:
            await node.stop()

    with running_node() as other:
        directory = other.data / "inner"
        found, (kafka, amqp, http) = asyncio.run(line())

    assert found == f"millstream ready kafka={kafka} amqp={amqp} http={http}"


def test_every_door_is_open_when_the_node_is_there():
    with running_node() as node:
        create(node, "orders")
        with urllib.request.urlopen(f"{node.http_url}/readyz") as answer:
            assert answer.status == 200


def test_a_stopped_node_is_gone_from_its_ports():
    with running_node() as node:
        port = port_of(node.bootstrap_servers)
        node.stop()

        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_stopping_twice_is_stopping_once():
    with running_node() as node:
        node.stop()
        node.stop()


def test_a_restarted_node_has_its_ports_and_its_data(tmp_path):
    with running_node(tmp_path / "data") as node:
        create(node, "orders")
        produce(node, "orders", b"a", b"b")
        before = (node.bootstrap_servers, node.http_url, node.amqp_url)

        node.restart()

        assert (node.bootstrap_servers, node.http_url, node.amqp_url) == before
        assert values_in(node, "orders") == [b"a", b"b"]


def test_a_node_can_be_stopped_and_started_again_many_times(tmp_path):
    with running_node(tmp_path / "data") as node:
        create(node, "orders")
        for number in range(6):
            assert produce(node, "orders", b"%d" % number) == [0]
            node.restart()

        assert values_in(node, "orders") == [b"%d" % number for number in range(6)]


def test_a_clean_stop_leaves_its_marker_and_a_start_takes_it_away(tmp_path):
    with running_node(tmp_path / "data") as node:
        assert not (tmp_path / "data" / "clean").exists()
        node.stop()
        assert (tmp_path / "data" / "clean").exists()
        node.start()
        assert not (tmp_path / "data" / "clean").exists()


def test_given_data_is_kept_and_temporary_data_is_not(tmp_path):
    with running_node(tmp_path / "data") as given, running_node() as temporary:
        places = (given.data, temporary.data)

    assert [place.exists() for place in places] == [True, False]


def test_several_nodes_can_run_in_one_process():
    with running_node() as one, running_node() as two, running_node() as three:
        nodes = [one, two, three]
        for number, node in enumerate(nodes):
            create(node, "orders")
            produce(node, "orders", b"%d" % number)

        assert [values_in(node, "orders") for node in nodes] == [[b"0"], [b"1"], [b"2"]]
        assert len({node.bootstrap_servers for node in nodes}) == 3


def test_a_second_node_on_the_same_data_is_refused_and_the_first_goes_on(tmp_path):
    with running_node(tmp_path / "data") as first:
        create(first, "orders")
        with pytest.raises(DirectoryLocked), running_node(tmp_path / "data"):
            pass

        assert produce(first, "orders", b"a") == [0]


def test_a_port_in_use_is_refused_before_the_data_directory_is_made(tmp_path):
    async def start(port):
        node = Node(settings_from({}), data=tmp_path / "data", ports=Ports(kafka=port, amqp=0, http=0))
        try:
            await node.start()
        finally:
            await node.stop(clean=False)

    with running_node() as other, pytest.raises(PortTaken, match=r"kafka port 127\.0\.0\.1:.*--kafka-port"):
        asyncio.run(start(port_of(other.bootstrap_servers)))

    assert not (tmp_path / "data").exists()


def test_a_host_that_is_not_known_is_refused_by_name():
    with (
        pytest.raises(PortTaken, match=r"kafka port no\.such\.host\.invalid"),
        running_node(settings={"host": "no.such.host.invalid"}),
    ):
        pass


def test_an_unknown_setting_is_refused():
    with (
        pytest.raises(InvalidSetting, match=r"no\.such\.setting"),
        running_node(settings={"no.such.setting": 1}),
    ):
        pass


def test_settings_are_applied():
    settings = {"num.partitions": 3, "log.retention.hours": 5}
    with running_node(settings=settings) as node, RawConnection(node.bootstrap_servers) as connection:
        answer = connection.call("metadata", 12, topics=[{"name": "new"}], allow_auto_topic_creation=True)
        resource = {"resource_type": 2, "resource_name": "new", "configuration_keys": ["retention.ms"]}
        (config,) = connection.call("describe_configs", 4, resources=[resource]).results[0].configs

    assert len(answer.topics[0].partitions) == 3
    assert config.value == str(5 * 3_600_000)


def test_a_request_that_waits_does_not_keep_the_node_from_stopping():
    with running_node() as node:
        create(node, "empty")
        connection = RawConnection(node.bootstrap_servers)
        position = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        connection.send(
            "fetch", 12, replica_id=-1, max_wait=3_600_000, min_bytes=1, max_bytes=1000,
            topics=[{"topic": "empty", "partitions": [position]}], forgotten_topics_data=[],
        )  # fmt: skip

        node.stop()

        assert connection.is_closed_by_peer()
        connection.close()


def test_the_fixture_gives_a_node(millstream_node):
    create(millstream_node, "orders")

    assert produce(millstream_node, "orders", b"a") == [0]


def test_outside_its_block_a_node_says_that_it_is_not_running():
    with running_node() as node:
        pass

    with pytest.raises(RuntimeError, match="use it inside"):
        _ = node.bootstrap_servers
