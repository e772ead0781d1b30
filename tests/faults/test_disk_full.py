"""A disk without room: producers are refused and told why, everything else goes on, and service resumes by itself."""

import errno

import pytest
from kio.schema.errors import ErrorCode

from tests.faults.tools import faults, fill, needs_root, needs_shim, small_disk
from tests.support.batches import values_batch
from tests.support.raw_groups import committed, committed_as, wait_for_coordinator
from tests.support.waiting import eventually

QUICK = {"log.retention.check.interval.ms": "100"}
SMALL = {"segment.bytes": "65536", "file.delete.delay.ms": "0"}
ENOSPC = str(errno.ENOSPC)
FULL = ErrorCode.kafka_storage_error


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", "12m") as place:
        yield place


@pytest.fixture
def node(make_node, disk):
    made = make_node(QUICK, data=disk / "data")
    made.start()
    return made


def payload(number):
    return values_batch(f"{number}:".encode() + b"." * 8_000)


def produce_until_refused(client, topic):
    """How many were acknowledged, and the answer that refused the next."""
    for number in range(5_000):
        answer = client.raw.produce(topic, payload(number))
        if answer.error_code:
            return number, answer
    pytest.fail("the disk never filled up")


def numbers_in(client, topic):
    return [int(value.partition(":")[0]) for _, _, value in client.records(topic)]


@needs_root
def test_producers_are_refused_while_consumers_and_commits_go_on(node, ask):
    client = ask(node)
    client.raw.create_topic("orders", **SMALL)
    wait_for_coordinator(client.connection, "group")

    count, refused = produce_until_refused(client, "orders")

    assert refused.error_code == FULL
    assert "no room on disk" in refused.error_message
    assert numbers_in(client, "orders") == list(range(count))
    assert committed_as(client.connection, "orders", count, group_id="group") == 0
    assert committed(client.connection, "group", "orders")[0] == count


@needs_root
def test_service_resumes_by_itself_when_retention_has_made_room(node, ask):
    client = ask(node)
    client.raw.create_topic("orders", **SMALL)
    count, _ = produce_until_refused(client, "orders")

    client.configure("orders", {"retention.bytes": "1000000"})

    eventually(lambda: client.raw.produce("orders", payload(count)).error_code == 0)
    found = numbers_in(client, "orders")
    assert found == list(range(found[0], count + 1))


@needs_root
def test_on_a_disk_without_a_single_byte_offsets_can_still_be_committed(node, ask, disk):
    client = ask(node)
    client.raw.create_topic("orders", **SMALL)
    wait_for_coordinator(client.connection, "group")
    client.raw.produce("orders", payload(0))
    fill(disk / "ballast")

    codes = [committed_as(client.connection, "orders", n, group_id="group") for n in range(1, 200)]

    assert set(codes) == {0}
    assert committed(client.connection, "group", "orders")[0] == 199
    assert eventually(lambda: client.raw.produce("orders", payload(1)).error_code) == FULL
    assert numbers_in(client, "orders") == [0]


@needs_root
def test_when_room_is_back_producers_are_served_and_the_reserve_is_made_again(node, ask, disk):
    client = ask(node)
    client.raw.create_topic("orders", **SMALL)
    wait_for_coordinator(client.connection, "group")
    fill(disk / "ballast")
    for offset in range(1, 100):
        committed_as(client.connection, "orders", offset, group_id="group")
    assert not (node.data / "reserve").exists()

    (disk / "ballast").unlink()

    eventually(lambda: client.raw.produce("orders", payload(0)).error_code == 0)
    eventually((node.data / "reserve").exists)


@needs_root
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_node_can_be_restarted_on_a_disk_without_a_single_byte(node, ask, disk, end):
    client = ask(node)
    client.raw.create_topic("orders", **SMALL)
    wait_for_coordinator(client.connection, "group")
    for number in range(20):
        client.raw.produce("orders", payload(number))
    committed_as(client.connection, "orders", 7, group_id="group")
    fill(disk / "ballast")

    getattr(node, end)()
    node.start()

    client = ask(node)
    assert numbers_in(client, "orders") == list(range(20))
    assert committed(client.connection, "group", "orders")[0] == 7
    assert client.delete_topic("orders")
    (disk / "ballast").unlink()
    assert client.create_topic("orders")
    eventually(lambda: client.raw.produce("orders", payload(0)).error_code == 0)


@needs_root
def test_what_gives_room_back_works_on_a_disk_without_a_single_byte(node, ask, disk):
    client = ask(node)
    for name in ("kept", "emptied", "shortened", "deleted"):
        client.raw.create_topic(name, **SMALL)
        for number in range(40):
            client.raw.produce(name, payload(number))
    fill(disk / "ballast")

    assert client.delete_records("emptied", 40)
    assert client.configure("shortened", {"retention.bytes": "65536"})
    assert client.delete_topic("deleted")

    eventually(lambda: client.raw.produce("kept", payload(40)).error_code == 0)
    assert numbers_in(client, "kept") == list(range(41))


@needs_root
def test_a_topic_that_can_t_be_made_is_refused_and_is_not_there_after_a_restart(node, ask, disk):
    client = ask(node)
    client.raw.create_topic("orders")
    fill(disk / "ballast")

    for number in range(300):
        client.create_topic(f"new-{number}")
    made = {f"new-{number}" for number in range(300)} & topics_of(client)
    node.kill()
    (disk / "ballast").unlink()
    node.start()

    assert len(made) < 300
    assert topics_of(ask(node)) - {"orders"} == made


def topics_of(client):
    answer = client.connection.call("metadata", 12, topics=None, allow_auto_topic_creation=False)
    return {topic.name for topic in answer.topics}


@needs_shim
def test_a_batch_of_which_half_was_written_is_taken_back(make_node, ask):
    node = make_node(environment=faults("pwrite:orders-0:3:3:short", f"pwrite:orders-0:3:3:{ENOSPC}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")

    codes = [client.raw.produce("orders", payload(number)).error_code for number in range(5)]

    # The third write comes back short; the rest of it is the third that the second rule sees.
    assert codes.count(FULL) == 1
    kept = [number for number, code in enumerate(codes) if code == 0]
    assert numbers_in(client, "orders") == kept
    node.kill()
    node.environment = {}
    node.start()
    assert numbers_in(ask(node), "orders") == kept


@needs_shim
def test_requests_that_need_a_record_in_the_catalog_are_answered_not_cut_off(make_node, ask, tmp_path):
    flag = tmp_path / "full"
    node = make_node(environment=faults(f"pwrite:__cluster_metadata:1:0:{ENOSPC}:{flag}"))
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")
    flag.touch()
    connection = client.connection

    assert not client.create_topic("another")
    assert not client.configure("orders", {"retention.ms": "5"})
    assert not client.delete_topic("orders")
    named = connection.call("metadata", 12, topics=[{"name": "auto"}], allow_auto_topic_creation=True)
    assert named.topics[0].error_code == ErrorCode.unknown_topic_or_partition
    answer = connection.call("init_producer_id", 4, transactional_id=None, transaction_timeout=60_000)
    assert answer.error_code == ErrorCode.coordinator_not_available
    flag.unlink()

    assert client.connection is connection
    assert client.create_topic("another")
    assert topics_of(client) == {"orders", "another"}


@needs_shim
def test_a_file_that_may_not_grow_refuses_its_own_producers_only(make_node, ask):
    node = make_node(wrapper=["prlimit", "--fsize=100000", "--"])
    node.start()
    client = ask(node)
    client.raw.create_topic("orders")
    client.raw.create_topic("others")

    count, refused = produce_until_refused(client, "orders")

    assert refused.error_code == FULL
    assert numbers_in(client, "orders") == list(range(count))
    assert client.raw.produce("others", payload(0)).error_code == 0
