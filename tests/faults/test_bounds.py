"""Clients that send too much, too slowly or nonsense, or never read: they hurt themselves and nobody else.

Memory is that of the node's own heap (what the page cache shares with it is the kernel's to give and take), and it
is compared with the bounds that the node was started with. That others are served is shown by serving them.
"""

import contextlib
import gc
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millstream.broker.fetch import _Fetch
from millstream.server import kafka_door
from millstream.testing import running_node
from tests.faults.asking import BROKEN, Asking
from tests.support.batches import values_batch
from tests.support.raw import RawConnection, framed, request_bytes
from tests.support.raw_requests import produce_body
from tests.support.waiting import eventually

MIB = 1 << 20
FRAME_MAX = 100 * MIB


@pytest.fixture
def node(make_node):
    made = make_node({"queued.max.request.bytes": str(32 * MIB), "connection.output.max.bytes": str(MIB)})
    made.start()
    return made


@pytest.fixture
def connect():
    """Opens bare sockets, which are closed when the test ends."""
    with contextlib.ExitStack() as opened:

        def open_one(address):
            host, _, port = address.rpartition(":")
            return opened.enter_context(socket.create_connection((host, int(port)), timeout=60))

        yield open_one


def heap_of(pid):
    """Bytes of memory that are the process's own."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon in the status of a process")


def is_closed(sock):
    """Whether the node has ended this connection."""
    sock.setblocking(False)
    try:
        return sock.recv(65536) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def send_what_fits(sock, data):
    """Send without ever waiting; returns how much the node took before its door was shut."""
    sock.setblocking(False)
    sent = 0
    quiet = 0
    while quiet < 20 and sent < len(data):
        try:
            sent += sock.send(data[sent : sent + MIB])
            quiet = 0
        except BlockingIOError:
            quiet += 1
            time.sleep(0.02)
    return sent


def assert_others_are_served(node, count=30):
    with Asking(node.bootstrap_servers) as client:
        client.create_topic("others")
        first = client.raw.end_offset("others")
        for number in range(count):
            assert client.raw.produce("others", values_batch(b"x" * 500)).base_offset == first + number
        assert client.raw.batches("others", first)


def fetch_bytes(topic, *, correlation_id=1, min_bytes=1, max_wait=1, size=FRAME_MAX, offset=0):
    body = {
        "replica_id": -1, "max_wait": max_wait, "min_bytes": min_bytes, "max_bytes": size,
        "topics": [{"topic": topic, "partitions": [
            {"partition": 0, "fetch_offset": offset, "partition_max_bytes": size}]}],
        "forgotten_topics_data": [],
    }  # fmt: skip
    return framed(request_bytes("fetch", 12, body, correlation_id))


LARGE = 12


def fill_topics(node):
    """More topics than the node keeps mapped, so that no two answers share their memory."""
    with Asking(node.bootstrap_servers) as client:
        for number in range(LARGE):
            client.create_topic(f"large-{number}")
            for _ in range(3):
                code = client.raw.produce(f"large-{number}", values_batch(b"x" * (MIB - 1000))).error_code
                assert code == 0


def many_fetches(count, *, first=0, **fields):
    return b"".join(
        fetch_bytes(f"large-{number % LARGE}", correlation_id=number, **fields)
        for number in range(first, count)
    )


# Too many


def test_more_connections_than_allowed_are_refused_and_the_others_stay(make_node, connect):
    node = make_node({"connections.max": "20"})
    node.start()
    clients = [Asking(node.bootstrap_servers) for _ in range(20)]
    for client in clients:
        client.raw.topic_metadata("any")

    refused = [connect(node.bootstrap_servers) for _ in range(30)]

    for sock in refused:
        eventually(lambda sock=sock: is_closed(sock))
    for client in clients:
        client.raw.topic_metadata("any")
    clients.pop().close()
    eventually(lambda: answers(node))
    for client in clients:
        client.close()


def answers(node):
    try:
        with RawConnection(node.bootstrap_servers) as connection:
            connection.call("api_versions", 0)
    except BROKEN:
        return False
    return True


def test_a_node_out_of_descriptors_serves_again_when_some_are_given_back(make_node, connect):
    node = make_node(wrapper=["prlimit", "--nofile=80:80", "--"])
    node.start()
    with Asking(node.bootstrap_servers) as client:
        client.create_topic("orders")
        client.raw.produce("orders", values_batch(b"a"))
        crowd = [connect(node.bootstrap_servers) for _ in range(200)]
        time.sleep(0.2)

        codes = [client.raw.produce("orders", values_batch(b"b")).error_code for _ in range(20)]
        for sock in crowd:
            sock.close()

        assert set(codes) == {0}
    eventually(lambda: answers(node))
    assert_others_are_served(node)
    assert node.stop() == 0


def test_a_crowd_leaves_descriptors_for_the_log(make_node, connect):
    node = make_node(wrapper=["prlimit", "--nofile=120:120", "--"])
    node.start()
    with Asking(node.bootstrap_servers) as client:
        client.create_topic("first")
        crowd = [connect(node.bootstrap_servers) for _ in range(300)]
        time.sleep(0.2)

        for number in range(30):
            assert client.create_topic(f"new-{number}")
            assert client.raw.produce(f"new-{number}", values_batch(b"a")).error_code == 0

        assert len(crowd) == 300
    assert node.is_running


# Nonsense


GARBAGE = {
    "random bytes": random.Random(1).randbytes(5_000),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS greeting": bytes.fromhex("16030100f8010000f40303") + random.Random(2).randbytes(240),
    "a negative size": struct.pack(">i", -5),
    "a size beyond the limit": struct.pack(">i", 2**31 - 1),
    "an empty frame": struct.pack(">i", 0),
    "an unknown request": framed(struct.pack(">hhih", 9_999, 0, 1, -1)),
    "a count beyond the bytes": framed(struct.pack(">hhihi", 3, 4, 1, -1, 2**31 - 1)),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_nonsense_ends_its_own_connection_only(node, connect, garbage):
    with Asking(node.bootstrap_servers) as client:
        client.create_topic("orders")
        sock = connect(node.bootstrap_servers)

        sock.sendall(garbage)

        eventually(lambda: is_closed(sock))
        assert client.raw.produce("orders", values_batch(b"a")).error_code == 0
    assert "Traceback" not in node.said


# Too slow


def test_large_requests_that_are_only_announced_cost_nothing(node, connect):
    before = heap_of(node.pid)
    for _ in range(200):
        connect(node.bootstrap_servers).sendall(struct.pack(">i", FRAME_MAX))

    assert_others_are_served(node)

    assert heap_of(node.pid) - before < 200 * 128 * 1024


def test_large_requests_share_one_budget(node, connect):
    before = heap_of(node.pid)
    head = struct.pack(">i", FRAME_MAX)
    taken = [send_what_fits(connect(node.bootstrap_servers), head + bytes(40 * MIB)) for _ in range(6)]

    assert_others_are_served(node)

    assert sum(taken) < 6 * 40 * MIB
    # Twice: a buffer that grows is copied into its successor.
    assert heap_of(node.pid) - before < 2 * 32 * MIB + 20 * MIB


def test_a_request_that_comes_byte_by_byte_is_answered_in_the_end(node, connect):
    with Asking(node.bootstrap_servers) as client:
        client.create_topic("orders")
        sock = connect(node.bootstrap_servers)
        request = framed(request_bytes("produce", 9, produce_body("orders", values_batch(b"slow")), 7))

        for place in range(len(request)):
            sock.sendall(request[place : place + 1])
            if place % 20 == 0:
                assert client.raw.produce("orders", values_batch(b"quick")).error_code == 0

        assert sock.recv(4)
        values = [value for _, _, value in client.records("orders")]
        assert (values.count("slow"), values.count("quick")) == (1, len(request) // 20 + 1)


@pytest.fixture
def hasty(monkeypatch):
    """A node in this process that loses its patience after a moment instead of half a minute."""
    monkeypatch.setattr(kafka_door, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(kafka_door, "SWEEP_SECONDS", 0.1)
    with running_node(settings={"queued.max.request.bytes": str(8 * MIB)}) as node:
        yield node


def test_a_request_that_is_begun_and_never_finished_is_dropped(hasty, connect):
    sock = connect(hasty.bootstrap_servers)
    sock.sendall(struct.pack(">i", 1000) + b"half")

    eventually(lambda: is_closed(sock))


def test_one_who_trickles_can_t_keep_the_room_that_others_wait_for(hasty, connect):
    head = struct.pack(">i", FRAME_MAX)
    hogs = [connect(hasty.bootstrap_servers) for _ in range(3)]
    for hog in hogs:
        send_what_fits(hog, head + bytes(5 * MIB))
    with Asking(hasty.bootstrap_servers) as client:
        client.create_topic("orders", config={"max.message.bytes": str(3 * MIB)})
        client.connection.send("produce", 9, **produce_body("orders", values_batch(b"x" * 2 * MIB)))

        client.connection.socket.setblocking(False)
        eventually(lambda: has_answer_while_trickling(client, hogs))


def has_answer_while_trickling(client, hogs):
    for hog in hogs:
        with contextlib.suppress(OSError):
            hog.setblocking(False)
            hog.send(b"\0")
    try:
        return client.connection.socket.recv(4)
    except BlockingIOError:
        return None


def test_idle_connections_are_closed_and_busy_ones_are_not(make_node, connect):
    node = make_node({"connections.max.idle.ms": "1000"})
    node.start()
    idle = connect(node.bootstrap_servers)
    with RawConnection(node.bootstrap_servers) as busy:
        eventually(lambda: busy.call("api_versions", 0) and is_closed(idle), every_s=0.02)
        busy.call("api_versions", 0)


# Never reading


def test_readers_that_never_read_are_sent_no_more_than_their_share(node, connect):
    fill_topics(node)
    before = heap_of(node.pid)
    for _ in range(30):
        send_what_fits(connect(node.bootstrap_servers), many_fetches(100))

    assert_others_are_served(node)

    assert heap_of(node.pid) - before < 60 * MIB


def test_fetches_that_wait_behind_another_answer_hold_no_data(node, connect):
    """The first answer is long in coming, so those behind it can't be sent, however soon they could be made."""
    fill_topics(node)
    with Asking(node.bootstrap_servers) as client:
        client.create_topic("empty")
    before = heap_of(node.pid)
    first = fetch_bytes("empty", max_wait=60_000)
    for _ in range(5):
        send_what_fits(connect(node.bootstrap_servers), first + many_fetches(120, first=2))

    assert_others_are_served(node)

    assert heap_of(node.pid) - before < 60 * MIB


def test_fetches_that_all_end_at_once_hold_no_more_than_their_share(node, connect):
    """None of them can be satisfied; when their time is up each would answer with all there is."""
    fill_topics(node)
    before = heap_of(node.pid)
    for _ in range(6):
        requests = many_fetches(100, min_bytes=2**31 - 1, max_wait=500)
        send_what_fits(connect(node.bootstrap_servers), requests)
    time.sleep(1)

    assert_others_are_served(node)

    assert heap_of(node.pid) - before < 60 * MIB
    assert open_files_of(node.pid) < 600


def open_files_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_flood_of_requests_by_one_who_never_reads_is_stopped_at_the_door(node, connect):
    with Asking(node.bootstrap_servers) as client:
        for number in range(200):
            client.create_topic(f"topic-{number}")
    before = heap_of(node.pid)
    one = framed(request_bytes("metadata", 12, {"topics": None, "allow_auto_topic_creation": False}, 1))
    flood = one * (20 * MIB // len(one))

    taken = [send_what_fits(connect(node.bootstrap_servers), flood) for _ in range(10)]

    assert_others_are_served(node)
    assert all(count < len(flood) for count in taken)
    assert heap_of(node.pid) - before < 60 * MIB


def test_waiting_fetches_of_clients_that_went_away_are_forgotten():
    with running_node() as node:
        with Asking(node.bootstrap_servers) as client:
            client.create_topic("empty")
        for _ in range(20):
            host, _, port = node.bootstrap_servers.rpartition(":")
            with socket.create_connection((host, int(port))) as sock:
                sock.sendall(b"".join(fetch_bytes("empty", max_wait=2**31 - 1) for _ in range(50)))
                time.sleep(0.02)

        eventually(lambda: not any(isinstance(each, _Fetch) for each in gc.get_objects()))


READING = """
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "log_level": 0})
consumer.assign([TopicPartition("large", 0, 0)])
count = 0
while count < 20:
    for message in consumer.consume(5, 1.0):
        assert message.error() is None, message.error()
        count += 1
        print(message.offset(), flush=True)
"""


def test_a_client_that_is_suspended_goes_on_where_it_was(node):
    with Asking(node.bootstrap_servers) as writer:
        writer.create_topic("large")
        for _ in range(20):
            writer.raw.produce("large", values_batch(b"x" * (MIB - 1000)))
    client = subprocess.Popen(
        [sys.executable, "-c", READING, node.bootstrap_servers], stdout=subprocess.PIPE, text=True
    )
    try:
        first = client.stdout.readline()
        client.send_signal(signal.SIGSTOP)
        assert_others_are_served(node)
        client.send_signal(signal.SIGCONT)
        rest = client.communicate()[0]
    finally:
        client.kill()
        client.wait()

    assert [int(line) for line in (first + rest).split()] == list(range(20))
