"""Kafka's own command line tools, doing an operator's work.

Each start of Java costs a second or more: one story a test, few starts a story.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.confluent import Confluent, Sent, values
from tests.support.java_tools import JavaTools, ToolResult
from tests.support.waiting import eventually


def events(result: ToolResult, name: str) -> list[dict[str, Any]]:
    """The verifiable tools print one JSON object a line."""
    parsed = [json.loads(line) for line in result.lines if line.startswith("{")]
    return [each for each in parsed if each.get("name") == name]


def test_topics_are_created_described_altered_listed_and_deleted(tools: JavaTools, unique: str) -> None:
    options = ["--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=1000000"]
    tools.run("topics", "--create", "--topic", unique, *options)
    tools.run("topics", "--alter", "--topic", unique, "--partitions", "4")

    described = tools.run("topics", "--describe", "--topic", unique).stdout

    assert "PartitionCount: 4\tReplicationFactor: 1" in described
    assert "retention.ms=1000000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 4

    tools.run("topics", "--delete", "--topic", unique)
    eventually(lambda: unique not in tools.run("topics", "--list").lines)


def test_a_topic_that_exists_is_reported(tools: JavaTools, topic: str) -> None:
    refused = tools.run("topics", "--create", "--topic", topic, expect=1)

    assert f"'{topic}' already exists" in refused.stdout + refused.stderr


def test_console_producer_and_consumer_speak_to_each_other(tools: JavaTools, topic: str) -> None:
    tools.run(
        "console-producer", "--topic", topic, "--reader-property", "parse.key=true", stdin="a\tone\nb\ttwo\n"
    )

    read = tools.run(
        "console-consumer",
        *["--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "60000"],
        *["--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"],
    )

    assert read.lines == ["Offset:0\ta\tone", "Offset:1\tb\ttwo"]


def test_a_console_consumer_reads_from_an_offset_through_fetch_sessions(
    tools: JavaTools, clients: Confluent, unique: str
) -> None:
    # 1,000 records under a small fetch limit take many fetches of one session.
    topic = clients.create_topic(unique)
    clients.send(topic, *[b"%d" % number for number in range(1_000)], linger_ms=0, batch_num_messages=10)

    read = tools.run(
        "console-consumer",
        *["--topic", topic, "--partition", "0", "--offset", "17", "--max-messages", "983"],
        *["--timeout-ms", "60000", "--command-property", "max.partition.fetch.bytes=1500"],
    )

    assert read.lines == [str(number) for number in range(17, 1_000)]


def test_configs_are_altered_and_described(tools: JavaTools, topic: str) -> None:
    entity = ["--entity-type", "topics", "--entity-name", topic]
    changes = ["--add-config", "max.message.bytes=50000,segment.ms=777777"]
    tools.run("configs", *entity, "--alter", *changes)
    tools.run("configs", *entity, "--alter", "--delete-config", "segment.ms")

    described = tools.run("configs", *entity, "--describe").stdout

    assert (
        "max.message.bytes=50000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=50000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}" in described
    )
    assert "segment.ms" not in described


def test_all_configs_of_a_broker_are_described(tools: JavaTools) -> None:
    described = tools.run("configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")

    assert "log.cleaner.backoff.ms=200" in described.stdout


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_perf_tests_send_and_receive_every_record(
    tools: JavaTools, clients: Confluent, unique: str, compression: str
) -> None:
    topic = clients.create_topic(unique, partitions=4)

    sent = tools.run(
        "producer-perf-test",
        *["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"],
        *["--command-property", f"compression.type={compression}"],
    )
    read = tools.run("consumer-perf-test", "--topic", topic, "--num-records", "20000", "--timeout", "60000")

    assert sent.lines[-1].startswith("20000 records sent")
    assert read.lines[-1].split(", ")[4] == "20000"


def test_the_verifiable_producer_and_consumer_agree(
    tools: JavaTools, clients: Confluent, unique: str
) -> None:
    topic = clients.create_topic(unique, partitions=2)

    sent = tools.run("verifiable-producer", "--topic", topic, "--max-messages", "500", "--acks", "-1")
    read = tools.run(
        "verifiable-consumer",
        *["--topic", topic, "--group-id", f"{unique}-group", "--max-messages", "500", "--verbose"],
        *["--reset-policy", "earliest", "--enable-autocommit"],
    )

    acked = {event["value"] for event in events(sent, "producer_send_success")}
    received = [event["value"] for event in events(read, "record_data")]
    assert acked == {str(number) for number in range(500)}
    assert sorted(received, key=int) == [str(number) for number in range(500)]


def test_offsets_and_sizes_are_told(tools: JavaTools, clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, partitions=2)
    clients.send(topic, *[Sent(value=b"x" * 100, partition=number % 2) for number in range(7)])

    latest = tools.run("get-offsets", "--topic", topic)
    described = tools.run("log-dirs", "--describe", "--topic-list", topic)

    assert sorted(latest.lines) == [f"{topic}:0:4", f"{topic}:1:3"]
    (broker,) = json.loads(described.lines[-1])["brokers"]
    sizes = {each["partition"]: each["size"] for each in broker["logDirs"][0]["partitions"]}
    assert sizes[f"{topic}-0"] > sizes[f"{topic}-1"] > 300


def test_records_are_deleted(tools: JavaTools, clients: Confluent, topic: str, tmp_path: Path) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 6}], "version": 1})
    )

    told = tools.run("delete-records", "--offset-json-file", str(wanted))

    assert f"partition: {topic}-0\tlow_watermark: 6" in told.stdout
    assert values(clients.read_to_end(topic)) == [b"6", b"7", b"8", b"9"]


def test_the_brokers_api_versions_are_read(tools: JavaTools, bootstrap: str) -> None:
    told = tools.run("broker-api-versions").stdout

    assert told.startswith(f"{bootstrap} (id: 1 rack: null")
    assert "Produce(0): 0 to" in told
    assert "ApiVersions(18): 0 to 4 [usable: 4]" in told


def test_a_groups_offsets_are_reset_described_and_deleted(
    tools: JavaTools, clients: Confluent, topic: str, group: str
) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])
    named = ["--group", group, "--topic", topic]

    reset = tools.run("consumer-groups", *named, "--reset-offsets", "--to-earliest", "--execute")
    shifted = tools.run("consumer-groups", *named, "--reset-offsets", "--shift-by", "4", "--execute")
    described = tools.run("consumer-groups", "--group", group, "--describe")
    assert [line.split() for line in reset.lines][-1] == [group, topic, "0", "0"]
    assert [line.split() for line in shifted.lines][-1] == [group, topic, "0", "4"]
    assert [line.split() for line in described.lines][-1][:6] == [group, topic, "0", "4", "10", "6"]

    deleted = tools.run("consumer-groups", *named, "--delete-offsets")
    assert "Successful" in deleted.stdout


def test_a_working_group_is_described_and_cannot_be_deleted(
    tools: JavaTools, clients: Confluent, topic: str, group: str
) -> None:
    clients.send(topic, b"work")
    member = clients.consumer(group, client_id="the-worker")
    member.subscribe([topic])
    eventually(lambda: member.poll(0.1))

    members = tools.run("consumer-groups", "--group", group, "--describe", "--members", "--verbose")
    state = tools.run("consumer-groups", "--group", group, "--describe", "--state")
    refused = tools.run("consumer-groups", "--group", group, "--delete")

    (row,) = [line.split() for line in members.lines if line.startswith(group)]
    assert row[3] == "the-worker"
    assert f"{topic}:0" in row
    assert " Stable " in state.stdout
    assert "GroupNotEmptyException" in refused.stdout + refused.stderr


def test_groups_are_listed_with_their_state(
    tools: JavaTools, clients: Confluent, topic: str, group: str
) -> None:
    member = clients.consumer(group)
    member.subscribe([topic])
    eventually(lambda: member.poll(0.1) or member.assignment())

    listed = tools.run("consumer-groups", "--list", "--state", "stable")

    assert [group, "Stable"] in [[line.split()[0], line.split()[-1]] for line in listed.lines if line]


def test_acls_say_that_security_is_off(tools: JavaTools) -> None:
    told = tools.run("acls", "--list", expect=1)

    assert "SecurityDisabledException" in told.stdout + told.stderr
