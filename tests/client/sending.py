"""Sending records in tests, without the half second that an idempotent producer waits for its id."""

from collections.abc import Iterable

from millstream.client.connection import Connection
from millstream.client.produce import ProduceReport, produce
from millstream.client.records import OutgoingRecord


def send(
    connection: Connection, topic: str, records: Iterable[OutgoingRecord], *, compression: str = "none"
) -> ProduceReport:
    return produce(connection, topic, records, compression=compression, idempotent=False)
