"""A sync that fails: nothing more is acknowledged, the node says why and goes, and what was acknowledged stays.

Why never again: after a failed fsync the kernel has marked the pages clean, so a second one would succeed without
having written them.
"""

import errno

import pytest

from tests.faults.asking import BROKEN
from tests.faults.tools import faults, inject, needs_shim, needs_strace
from tests.support.batches import values_batch
from tests.support.raw_groups import committed_as, wait_for_coordinator

EIO = str(errno.EIO)


def produce_until_it_ends(client, topic, acks):
    """Values that were acknowledged before the node refused or went away."""
    acknowledged = []
    for number in range(500):
        value = f"{number}".encode()
        try:
            answer = client.raw.produce(topic, values_batch(value), acks=acks)
        except BROKEN:
            return acknowledged
        if answer.error_code:
            return acknowledged
        acknowledged.append(value.decode())
    pytest.fail("the fault did not strike")


@needs_shim
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_failed_sync_stops_the_node_with_a_reason_and_without_a_clean_marker(make_node, ask, acks):
    node = make_node(environment=faults(f"fdatasync:orders-0:12:0:{EIO}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")

    acknowledged = produce_until_it_ends(client, "orders", acks)

    assert node.wait() == 1
    assert "the disk could not keep what was written: [Errno 5] Input/output error" in node.said
    assert not (node.data / "clean").exists()
    assert len(acknowledged) >= 11
    node.environment = {}
    node.start()
    kept = [value for _, _, value in ask(node).records("orders")]
    assert kept[: len(acknowledged)] == acknowledged


@needs_shim
def test_acks_all_never_hears_of_a_batch_whose_sync_failed(make_node, ask):
    node = make_node(environment=faults(f"fdatasync:orders-0:12:0:{EIO}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")

    acknowledged = produce_until_it_ends(client, "orders", -1)

    assert len(acknowledged) == 11


@needs_shim
def test_a_directory_that_can_t_be_synced_stops_the_node_too(make_node, ask):
    node = make_node(environment=faults(f"fsync:topics/orders-0:1:0:{EIO}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")

    acknowledged = produce_until_it_ends(client, "orders", -1)

    assert acknowledged == []
    assert node.wait() == 1


@needs_shim
def test_a_failed_sync_of_committed_offsets_stops_the_node_too(make_node, ask):
    node = make_node(environment=faults(f"fdatasync:__consumer_offsets:1:0:{EIO}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")
    wait_for_coordinator(client.connection, "group")

    with pytest.raises(BROKEN):
        committed_as(client.connection, "orders", 1, group_id="group")

    assert node.wait() == 1


@needs_shim
def test_a_node_whose_last_sync_fails_ends_without_a_clean_marker(make_node, ask, tmp_path):
    node = make_node({"log.fsync": "os"}, environment=faults(f"fdatasync:orders-0:1:0:{EIO}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")
    client.raw.produce("orders", values_batch(b"a"))

    code = node.stop()

    assert (code, (node.data / "clean").exists()) == (1, False)
    assert "Input/output error" in node.said


@needs_strace
def test_the_kernel_s_own_error_has_the_same_effect(make_node, ask):
    node = make_node(wrapper=inject("fdatasync", "error=EIO", when="6+"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")

    produce_until_it_ends(client, "orders", -1)

    assert node.wait() == 1
    assert "Input/output error" in node.said
    assert not (node.data / "clean").exists()
