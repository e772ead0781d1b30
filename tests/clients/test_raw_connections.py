"""Connections that misbehave harm themselves and nobody else."""

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

from tests.support.batches import values_batch
from tests.support.raw import RawConnection, framed, request_bytes
from tests.support.raw_requests import RawRequests, produce_body

HEADER = struct.Struct(">hhih")


def header(api_key: int, version: int, client_id: bytes = b"raw") -> bytes:
    """A request header of version 1, for any key and version."""
    return HEADER.pack(api_key, version, 1, len(client_id)) + client_id


@pytest.fixture
def bystander(bootstrap: str) -> Iterator[RawRequests]:
    """A well-behaved connection that was open before."""
    with RawConnection(bootstrap) as connection:
        requests = RawRequests(connection)
        requests.connection.call("metadata", 9, topics=[])
        yield requests


def assert_unharmed(bystander: RawRequests, bootstrap: str) -> None:
    """Old and new connections are served."""
    assert bystander.connection.call("metadata", 9, topics=[]).brokers
    with RawConnection(bootstrap) as fresh:
        assert fresh.call("metadata", 9, topics=[]).brokers


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), id="tls"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="two gigabytes announced"),
        pytest.param(struct.pack(">i", 104_857_601), id="one byte over the limit announced"),
        pytest.param(struct.pack(">i", -5), id="negative size"),
        pytest.param(framed(b""), id="empty request"),
        pytest.param(framed(b"\x00\x03"), id="half a header"),
        pytest.param(framed(bytes(8)), id="zeros"),
        pytest.param(framed(header(999, 0)), id="unknown api key"),
        pytest.param(framed(header(-1, 0)), id="negative api key"),
        pytest.param(framed(header(3, 99)), id="unknown version"),
        pytest.param(framed(header(3, -1)), id="negative version"),
        pytest.param(framed(header(1, 3) + bytes(40)), id="version long gone"),
        pytest.param(framed(HEADER.pack(3, 1, 1, 30_000) + b"short"), id="client id cut short"),
        pytest.param(framed(header(3, 1) + struct.pack(">i", 0x7FFFFFF0)), id="two billion topics"),
        pytest.param(framed(header(3, 1) + struct.pack(">ih", 1, 32_000)), id="name cut short"),
        pytest.param(framed(header(3, 9) + b"\x00" + b"\xff" * 9), id="varint without end"),
    ],
)
def test_what_is_not_kafka_ends_its_own_connection(
    connection: RawConnection, bystander: RawRequests, bootstrap: str, sent: bytes
) -> None:
    connection.send_bytes(sent)

    assert connection.is_closed_by_peer()
    assert_unharmed(bystander, bootstrap)


def test_half_a_request_is_waited_for_without_holding_up_others(
    connection: RawConnection, bystander: RawRequests, bootstrap: str, topic: str
) -> None:
    request = framed(request_bytes("produce", 9, produce_body(topic, values_batch(b"late")), 5))
    connection.send_bytes(request[:40])

    assert_unharmed(bystander, bootstrap)
    connection.send_bytes(request[40:])

    assert struct.unpack_from(">i", connection.receive_frame()) == (5,)


def test_a_connection_that_ends_in_the_middle_of_a_request_leaves_nothing(
    bystander: RawRequests, bootstrap: str, topic: str
) -> None:
    request = framed(request_bytes("produce", 9, produce_body(topic, values_batch(b"x" * 10_000)), 5))
    with RawConnection(bootstrap) as dropped:
        dropped.send_bytes(request[:5_000])

    assert_unharmed(bystander, bootstrap)
    assert bystander.end_offset(topic) == 0


def test_connections_reset_in_the_middle_of_a_long_poll_do_no_harm(
    bystander: RawRequests, bootstrap: str, topic: str
) -> None:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]
    for _ in range(20):
        waiting = RawConnection(bootstrap)
        waiting.send(
            "fetch",
            12,
            replica_id=-1,
            max_wait=60_000,
            min_bytes=1,
            max_bytes=1_000,
            topics=[{"topic": topic, "partitions": partitions}],
        )
        linger_none = struct.pack("ii", 1, 0)
        waiting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_none)
        waiting.close()

    assert bystander.produce(topic, values_batch(b"still here")).error_code == ErrorCode.none
    assert_unharmed(bystander, bootstrap)


def test_idle_connections_do_no_harm(bystander: RawRequests, bootstrap: str) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(200):
            opened.enter_context(RawConnection(bootstrap))

        assert_unharmed(bystander, bootstrap)


def test_a_reader_that_never_reads_harms_only_itself(
    connection: RawConnection, bystander: RawRequests, bootstrap: str, topic: str
) -> None:
    for _ in range(10):
        bystander.produce(topic, values_batch(b"x" * 900_000))
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000_000}]
    for _ in range(30):
        connection.send(
            "fetch",
            12,
            replica_id=-1,
            max_wait=100,
            min_bytes=1,
            max_bytes=10_000_000,
            topics=[{"topic": topic, "partitions": partitions}],
        )

    # 270 MB are asked for and nobody takes them.
    assert len(bystander.batches(topic)) >= 1
    assert_unharmed(bystander, bootstrap)


def test_pipelined_requests_of_different_kinds_are_answered_in_order(
    connection: RawConnection, topic: str
) -> None:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]
    fetch = {
        "replica_id": -1,
        "max_wait": 300,
        "min_bytes": 1,
        "max_bytes": 1_000,
        "topics": [{"topic": topic, "partitions": partitions}],
    }

    # The fetch waits; what follows it on this connection must not overtake it.
    first = connection.send("fetch", 12, **fetch)
    second = connection.send("metadata", 9, topics=[])
    third = connection.send("api_versions", 0)

    assert connection.receive("fetch", 12, first).error_code == ErrorCode.none
    assert connection.receive("metadata", 9, second).brokers
    assert connection.receive("api_versions", 0, third).api_keys


def test_many_connections_at_once_are_served(bootstrap: str, topic: str) -> None:
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(RawConnection(bootstrap)) for _ in range(100)]
        ids = [
            each.send("produce", 9, **produce_body(topic, values_batch(b"%d" % place)))
            for place, each in enumerate(connections)
        ]
        answers = [
            each.receive("produce", 9, correlation_id).responses[0].partition_responses[0]
            for each, correlation_id in zip(connections, ids, strict=True)
        ]

    assert sorted(each.base_offset for each in answers) == list(range(100))
