"""The chores go on: past a log that makes trouble, and past one that is gone."""

import errno
import os

import pytest

from millstream.log.errors import LogIOError
from millstream.log.partition import PartitionLog
from millstream.testing import running_node
from tests.support.batches import values_batch
from tests.support.raw import RawConnection
from tests.support.raw_requests import EARLIEST, RawRequests
from tests.support.waiting import eventually

QUICK = {"log.retention.check.interval.ms": 20}
SHORT = {"segment_bytes": "1024", "retention_bytes": "1024"}


@pytest.fixture
def raw():
    with running_node(settings=QUICK) as node, RawConnection(node.bootstrap_servers) as connection:
        yield RawRequests(connection)


def write(raw, topic, count):
    for number in range(count):
        raw.produce(topic, values_batch(b"%d" % number * 200))


def starts_at(raw, topic):
    return int(raw.list_offsets(topic, EARLIEST).offset)


def test_a_log_whose_retention_fails_keeps_no_other_from_its_own(raw, monkeypatch):
    expire = PartitionLog.expire

    def fail_for_one(log, now_ms):
        if log.topic_partition.topic == "broken":
            raise LogIOError(log.directory, OSError(errno.EIO, os.strerror(errno.EIO)))
        return expire(log, now_ms)

    monkeypatch.setattr(PartitionLog, "expire", fail_for_one)
    raw.create_topic("broken", **SHORT)
    raw.create_topic("sound", **SHORT)
    write(raw, "broken", 10)
    write(raw, "sound", 10)

    eventually(lambda: starts_at(raw, "sound") > 0)
    assert starts_at(raw, "broken") == 0


def test_topics_that_come_and_go_meanwhile_do_not_disturb_retention(raw):
    for _ in range(30):
        for number in range(3):
            raw.create_topic(f"passing-{number}", **SHORT)
            write(raw, f"passing-{number}", 3)
        topics = [{"name": f"passing-{number}", "topic_id": None} for number in range(3)]
        answer = raw.connection.call("delete_topics", 6, topics=topics, timeout=30_000)
        assert [each.error_code for each in answer.responses] == [0, 0, 0]
    raw.create_topic("sound", **SHORT)
    write(raw, "sound", 10)

    eventually(lambda: starts_at(raw, "sound") > 0)
