import pytest

from millstream.client.connection import Connection
from millstream.client.groups import alter_group_offsets
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.client.topic_outlook import topic_outlook
from millstream.client.topics import describe_topic
from millstream.model.topics import TopicPartition
from tests.client.sending import send
from tests.client.times import MINUTE_MS, NOW_MS

HOUR_MS = 60 * MINUTE_MS


def test_the_outlook_of_a_live_topic(
    connection: Connection, session: AdminSession, topic: str, group: str
) -> None:
    # Sixty records in the last ten minutes, older ones before them; the group stands 30 minutes back.
    old = [OutgoingRecord(value=b"x" * 100, partition=0, timestamp_ms=NOW_MS - 30 * MINUTE_MS)] * 5
    fresh = [
        OutgoingRecord(value=b"x" * 100, partition=0, timestamp_ms=NOW_MS - 9 * MINUTE_MS + n * 1_000)
        for n in range(60)
    ]
    send(connection, topic, [*old, *fresh])
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 2})
    config = {"cleanup.policy": "delete", "retention.ms": str(HOUR_MS)}

    found = topic_outlook(session, describe_topic(session, topic), config, now_ms=NOW_MS)

    assert found.elapsed_ms == 10 * MINUTE_MS
    assert found.outlook.records_per_s == pytest.approx(0.1)
    assert found.outlook.lasts_s == HOUR_MS / 1_000
    assert found.outlook.bytes_per_s is not None
    assert found.outlook.bytes_per_s > 0
    (risk,) = found.outlook.risks
    assert (risk.group, risk.lag, risk.lost) == (group, 63, 0)
    assert risk.time_left_s == pytest.approx(30 * 60)


def test_an_idle_topic_is_looked_at_over_a_day(
    connection: Connection, session: AdminSession, topic: str
) -> None:
    send(connection, topic, [OutgoingRecord(value=b"x", timestamp_ms=NOW_MS - 30 * HOUR_MS)])

    found = topic_outlook(session, describe_topic(session, topic), {}, now_ms=NOW_MS)

    assert found.elapsed_ms == 24 * HOUR_MS
    assert found.outlook.records_per_s == 0
