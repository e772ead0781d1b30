import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import murmur2

from millstream.client.connection import Connection
from millstream.client.errors import BrokerTimedOut, InvalidOption, RecordTooLarge, UnknownPartition
from millstream.client.positions import Beginning
from millstream.client.produce import Sender, produce
from millstream.client.read import plan_read, read
from millstream.client.records import OutgoingRecord, ReceivedRecord
from millstream.client.session import AdminSession
from millstream.client.topics import alter_topic_configs
from tests.client.sending import send
from tests.client.times import NOW_MS


def everything(session: AdminSession, topic: str) -> list[ReceivedRecord]:
    return list(read(session.connection, plan_read(session, topic, Beginning())))


def test_the_report_counts_what_was_acknowledged(connection: Connection, topic: str) -> None:
    report = produce(connection, topic, [OutgoingRecord(value=b"four", partition=2)] * 5)

    assert (report.records, report.value_bytes, report.offsets) == (5, 20, {2: (0, 4)})


def test_a_record_arrives_as_it_was_sent(connection: Connection, session: AdminSession, topic: str) -> None:
    sent = OutgoingRecord(
        key=b"k",
        value=b"\x00\xff",
        headers=(("a", b"1"), ("a", b"2"), ("n", None)),
        partition=1,
        timestamp_ms=NOW_MS,
    )

    send(connection, topic, [sent])

    (came,) = everything(session, topic)
    assert (came.key, came.value, came.headers, came.partition, came.timestamp_ms) == (
        sent.key,
        sent.value,
        sent.headers,
        1,
        NOW_MS,
    )


def test_a_tombstone_has_no_value(connection: Connection, session: AdminSession, topic: str) -> None:
    send(connection, topic, [OutgoingRecord(key=b"k", value=None)])

    assert everything(session, topic)[0].value is None


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_understood(
    connection: Connection, session: AdminSession, topic: str, compression: str
) -> None:
    send(connection, topic, [OutgoingRecord(value=b"x" * 1_000)] * 3, compression=compression)

    assert [record.value for record in everything(session, topic)] == [b"x" * 1_000] * 3


@pytest.mark.parametrize("key", [b"a", b"customer-7", b"\x00\x01", "ключ".encode()])
def test_a_key_goes_where_java_clients_send_it(connection: Connection, topic: str, key: bytes) -> None:
    report = send(connection, topic, [OutgoingRecord(key=key, value=b"v")])

    assert list(report.offsets) == [murmur2(key, 3)]


def test_a_partition_that_is_not_there_is_told(connection: Connection, topic: str) -> None:
    with pytest.raises(UnknownPartition, match="no partition 9"):
        produce(connection, topic, [OutgoingRecord(value=b"v", partition=9)])


def test_a_record_that_the_topic_refuses_for_its_size_is_told(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    alter_topic_configs(session, topic, set_values={"max.message.bytes": "1000"})

    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes"):
        send(connection, topic, [OutgoingRecord(value=b"x" * 5_000)])


def test_a_record_too_large_for_the_client_is_told(connection: Connection, topic: str) -> None:
    with pytest.raises(RecordTooLarge):
        send(connection, topic, [OutgoingRecord(value=b"x" * 2_000_000)])


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match="such"):
        Sender(Connection(options={"no.such": "1"}), "t")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_records_that_are_never_acknowledged_are_an_error(silent_port: int) -> None:
    connection = Connection(bootstrap=f"127.0.0.1:{silent_port}")

    with (
        pytest.raises(BrokerTimedOut, match="did not answer in time"),
        Sender(connection, "t", delivery_timeout_s=0.5) as sender,
    ):
        sender.send(OutgoingRecord(value=b"v"))
