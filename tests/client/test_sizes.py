import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.client.connection import Connection
from millstream.client.raw import ProtocolBroken, exchange
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.client.sizes import DiskUse, disk_use, parse_log_dirs
from millstream.model.topics import TopicPartition
from tests.client.sending import send

# One directory, one topic of one partition with 77 bytes, 1,000 of 5,000 bytes free, and an unknown tag.
ONE_PARTITION = (
    struct.pack(">ih", 0, 0)
    + b"\x02"
    + struct.pack(">h", 0)
    + b"\x05/log"
    + b"\x02\x07orders\x02"
    + struct.pack(">iqq?", 3, 77, 0, False)
    + b"\x00\x00"
    + struct.pack(">qq", 5_000, 1_000)
    + b"\x01\x09\x02xy"
    + b"\x00"
)


def test_sizes_on_disk_are_told_for_each_partition(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    send(connection, topic, [OutgoingRecord(value=b"x" * 1_000, partition=1)] * 10)

    found = disk_use(session, [topic])

    assert found is not None
    assert set(found.partitions) == {TopicPartition(topic, number) for number in range(3)}
    assert found.partitions[TopicPartition(topic, 1)] > 10_000
    assert found.free_bytes is not None
    assert found.free_bytes > 0


def test_a_broker_behind_tls_is_not_asked_in_the_clear(bootstrap: str) -> None:
    with AdminSession(Connection(bootstrap=bootstrap, options={"security.protocol": "SSL"})) as session:
        assert disk_use(session) is None


def test_a_response_is_read_with_tags_that_we_dont_know() -> None:
    expected = DiskUse(partitions={TopicPartition("orders", 3): 77}, free_bytes=1_000)

    assert parse_log_dirs(ONE_PARTITION, "there:1") == expected


@pytest.mark.parametrize("length", range(len(ONE_PARTITION) - 1))
def test_a_response_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(ProtocolBroken):
        parse_log_dirs(ONE_PARTITION[:length], "there:1")


@given(st.binary(max_size=200))
@example(struct.pack(">ih", 0, 0) + b"\xff\xff\xff\xff\x0f")
def test_arbitrary_bytes_give_sizes_or_an_error_and_nothing_else(body: bytes) -> None:
    try:
        parse_log_dirs(body, "there:1")
    except ProtocolBroken:
        return


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that says the same to everyone, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1_024)
                peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a response of"),
        (struct.pack(">ii", 100, 1), "closed"),
        (struct.pack(">ii", 4, 2), "another request"),
        (struct.pack(">i", -1), "a response of -1 bytes"),
    ],
    ids=["nothing", "another protocol", "half an answer", "to another", "negative size"],
)
def test_what_is_not_a_broker_is_told_apart(answer: bytes, reason: str) -> None:
    with answering(answer) as port, pytest.raises(ProtocolBroken, match=reason):
        exchange("127.0.0.1", port, api_key=18, version=0, body=b"", flexible=False)
