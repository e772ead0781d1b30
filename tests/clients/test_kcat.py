"""kcat, the tool people reach for first."""

import json
import subprocess

from tests.clients.confluent import Confluent, Sent
from tests.support.waiting import eventually


def run(kcat: str, clients: Confluent, *arguments: str, stdin: bytes = b"") -> bytes:
    command = [kcat, "-b", clients.bootstrap_servers, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=True)
    return done.stdout


def test_lines_go_in_and_come_out(kcat: str, clients: Confluent, topic: str) -> None:
    run(kcat, clients, "-P", "-t", topic, stdin=b"one\ntwo\nthree\n")

    assert run(kcat, clients, "-C", "-t", topic, "-e", "-q") == b"one\ntwo\nthree\n"


def test_everything_about_a_record_is_shown(kcat: str, clients: Confluent, topic: str) -> None:
    clients.send(topic, Sent(key=b"k", value=None, headers=(("h", b"1"),)), Sent(value=b"v"))

    found = [
        json.loads(line) for line in run(kcat, clients, "-C", "-t", topic, "-e", "-q", "-J").splitlines()
    ]

    assert [(each["offset"], each["key"], each["payload"]) for each in found] == [
        (0, "k", None),
        (1, None, "v"),
    ]
    assert found[0]["headers"] == ["h", "1"]


def test_the_last_records_are_tailed(kcat: str, clients: Confluent, topic: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])

    assert run(kcat, clients, "-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-q") == b"7\n8\n9\n"


def test_metadata_lists_brokers_topics_and_partitions(kcat: str, clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=3)

    found = json.loads(run(kcat, clients, "-L", "-J", "-t", topic))

    assert [broker["name"] for broker in found["brokers"]] == [clients.bootstrap_servers]
    assert [len(each["partitions"]) for each in found["topics"]] == [3]


def test_offsets_are_queried_by_timestamp(kcat: str, clients: Confluent, topic: str) -> None:
    sent = clients.send(topic, b"a", b"b")
    timestamp = sent[0].timestamp()[1]

    found = run(kcat, clients, "-Q", "-t", f"{topic}:0:{timestamp}")

    assert found.strip().endswith(b"offset 0")


def test_a_balanced_consumer_reads_a_group(kcat: str, clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(5)])
    arguments = ["-X", "auto.offset.reset=earliest", "-c", "5", "-q", "-G", group, topic]

    assert run(kcat, clients, *arguments) == b"0\n1\n2\n3\n4\n"
    listed = eventually(lambda: clients.admin.list_consumer_groups().result(timeout=60).valid)
    assert group in {each.group_id for each in listed}
