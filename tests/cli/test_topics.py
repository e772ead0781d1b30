import json

import pytest
import yaml

from millstream.client.connection import Connection
from millstream.client.groups import alter_group_offsets
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.client.topics import topic_names
from millstream.model.topics import TopicPartition
from tests.cli.conftest import Run
from tests.client.sending import send
from tests.client.target import unused_name
from tests.client.times import MINUTE_MS, now_ms


def send_some(connection: Connection, topic: str, count: int = 10) -> None:
    """One record a minute up to now, into partition 0."""
    last_ms = now_ms()
    records = [
        OutgoingRecord(value=b"x" * 100, partition=0, timestamp_ms=last_ms - (count - 1 - n) * MINUTE_MS)
        for n in range(count)
    ]
    send(connection, topic, records)


class TestList:
    def test_it_shows_partitions_records_and_size(self, run: Run, connection: Connection, topic: str) -> None:
        send_some(connection, topic)

        result = run("topics", "list", topic, "-o", "json")

        (row,) = json.loads(result.stdout)
        assert (row["name"], row["partitions"], row["replicas"], row["records"]) == (topic, 2, 1, 10)
        assert row["size_bytes"] > 1_000
        assert result.stderr == ""

    def test_every_format_tells_the_same(self, run: Run, topic: str) -> None:
        as_json = json.loads(run("topics", "list", topic, "-o", "json").stdout)
        as_yaml = yaml.safe_load(run("topics", "list", topic, "-o", "yaml").stdout)
        heading, row = run("topics", "list", topic).stdout.splitlines()

        assert as_json == as_yaml
        assert heading.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "SIZE"]
        assert row.split()[:2] == [topic, "2"]

    def test_names_alone_are_one_a_line(self, run: Run, topic: str) -> None:
        assert run("topics", "list", "-q", topic).stdout == f"{topic}\n"

    def test_a_pattern_narrows_it(self, run: Run, topic: str) -> None:
        assert topic in run("topics", "list", "-q", "topic-*").stdout
        assert run("topics", "list", "-q", "other-*").stdout == ""

    def test_internal_topics_are_shown_only_when_asked_for(
        self, run: Run, session: AdminSession, topic: str, group: str
    ) -> None:
        alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})

        assert "__consumer_offsets" not in run("topics", "list", "-q").stdout
        assert "__consumer_offsets" in run("topics", "list", "-q", "--internal").stdout


class TestCreate:
    def test_a_topic_is_created_with_its_settings(self, run: Run, session: AdminSession) -> None:
        name = unused_name("new")

        result = run("topics", "create", name, "-n", "3", "-c", "retention.ms=1000")

        assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"created {name}\n")
        shown = json.loads(run("topics", "describe", name, "-o", "json").stdout)
        assert len(shown["partitions"]) == 3
        assert shown["config"] == {"retention.ms": "1000"}

    def test_one_that_exists_is_an_error_unless_that_is_fine(self, run: Run, topic: str) -> None:
        refused = run("topics", "create", topic)
        allowed = run("topics", "create", topic, "--if-not-exists")

        assert (refused.exit_code, allowed.exit_code) == (1, 0)
        assert "exists already: pass --if-not-exists" in refused.stderr

    def test_a_dry_run_creates_nothing(self, run: Run, session: AdminSession) -> None:
        name = unused_name("maybe")

        assert run("topics", "create", name, "--dry-run").stderr == f"would create {name}\n"
        assert name not in topic_names(session)

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["bad name"], 2),
            (["x", "-c", "retention.ms"], 2),
            (["x", "-n", "0"], 2),
            (["x", "-c", "no.such=1"], 1),
        ],
    )
    def test_what_cant_be_is_refused_in_one_line(self, run: Run, arguments: list[str], code: int) -> None:
        result = run("topics", "create", *arguments)

        assert result.exit_code == code
        assert result.stderr.count("\n") == 1


class TestDelete:
    def test_a_script_must_say_yes(self, run: Run, session: AdminSession, topic: str) -> None:
        refused = run("topics", "delete", topic)

        assert refused.exit_code == 2
        assert f"Delete {topic} (0 records)? There is no terminal to ask on: pass --yes" in refused.stderr
        assert topic in topic_names(session)

    def test_with_yes_it_is_gone(self, run: Run, session: AdminSession, topic: str) -> None:
        assert run("topics", "delete", topic, "--yes").exit_code == 0
        assert topic not in topic_names(session)

    def test_a_dry_run_says_how_much_would_go(self, run: Run, connection: Connection, topic: str) -> None:
        send_some(connection, topic)

        assert run("topics", "delete", topic, "--dry-run").stderr == f"would delete {topic} (10 records)\n"

    def test_a_topic_that_is_not_there_is_not_found(self, run: Run, topic: str) -> None:
        result = run("topics", "delete", topic[:-1], "--yes")

        assert result.exit_code == 3
        assert f"did you mean '{topic}'?" in result.stderr
        assert run("topics", "delete", topic[:-1], "--yes", "--if-exists").exit_code == 0


class TestConfig:
    def test_what_is_set_is_shown(self, run: Run, topic: str) -> None:
        assert run("topics", "config", "set", topic, "retention.ms=5000", "segment.ms=2000").exit_code == 0

        shown = {
            row["name"]: row["value"]
            for row in json.loads(self.get(run, topic, "retention.ms", "segment.ms"))
        }

        assert shown == {"retention.ms": "5000", "segment.ms": "2000"}

    def get(self, run: Run, topic: str, *names: str) -> str:
        return run("topics", "config", "get", topic, *names, "-o", "json").stdout

    def test_defaults_are_shown_when_asked_for(self, run: Run, topic: str) -> None:
        assert json.loads(self.get(run, topic)) == []
        assert len(json.loads(self.get(run, topic, "--all"))) > 20

    def test_a_dry_run_only_checks(self, run: Run, topic: str) -> None:
        assert run("topics", "config", "set", topic, "retention.ms=5000", "--dry-run").exit_code == 0
        assert run("topics", "config", "set", topic, "retention.ms=soon", "--dry-run").exit_code == 1
        assert json.loads(self.get(run, topic)) == []

    def test_a_mistyped_setting_is_answered_with_the_right_one(self, run: Run, topic: str) -> None:
        result = run("topics", "config", "get", topic, "retention.m")

        assert (result.exit_code, "did you mean retention.ms?" in result.stderr) == (2, True)

    def test_nothing_to_change_is_wrong_usage(self, run: Run, topic: str) -> None:
        assert run("topics", "config", "set", topic).exit_code == 2


class TestDeleteRecords:
    @pytest.mark.parametrize(
        ("before", "start"), [("4", 4), ("end", 10), ("150s", 7), ("beginning", 0), ("999", 10)]
    )
    def test_what_lies_before_a_place_is_deleted(
        self, run: Run, connection: Connection, topic: str, before: str, start: int
    ) -> None:
        send_some(connection, topic)

        result = run("topics", "delete-records", topic, "--before", before, "--yes", "-o", "json")

        assert result.exit_code == 0
        assert json.loads(result.stdout)[0]["deleted"] in (start, start + 1)  # time goes on meanwhile
        shown = json.loads(run("topics", "describe", topic, "-o", "json").stdout)
        assert shown["partitions"][0]["start"] in (start, start + 1)

    def test_a_dry_run_deletes_nothing(self, run: Run, connection: Connection, topic: str) -> None:
        send_some(connection, topic)

        result = run("topics", "delete-records", topic, "--before", "end", "--dry-run")

        assert result.stderr == f"would delete 10 records of {topic}\n"
        assert (
            json.loads(run("topics", "describe", topic, "-o", "json").stdout)["partitions"][0]["start"] == 0
        )

    def test_it_asks_first(self, run: Run, connection: Connection, topic: str) -> None:
        send_some(connection, topic)

        assert run("topics", "delete-records", topic, "--before", "end").exit_code == 2

    def test_the_last_n_is_no_place_to_delete_before(self, run: Run, topic: str) -> None:
        assert run("topics", "delete-records", topic, "--before", "-5").exit_code == 2


def test_partitions_are_added(run: Run, topic: str) -> None:
    result = run("topics", "add-partitions", topic, "--total", "4")

    assert result.exit_code == 0
    assert f"{topic}: 2 partitions are now 4" in result.stderr
    assert run("topics", "add-partitions", topic, "--total", "1").exit_code == 1


class TestDescribe:
    def test_it_shows_partitions_settings_and_the_outlook(
        self, run: Run, connection: Connection, session: AdminSession, topic: str, group: str
    ) -> None:
        send_some(connection, topic)
        run("topics", "config", "set", topic, "retention.ms=3600000")
        alter_group_offsets(session, group, {TopicPartition(topic, 0): 3})

        result = run("topics", "describe", topic)

        assert result.exit_code == 0
        assert "PARTITION  LEADER" in result.stdout
        assert "retention.ms  3600000" in result.stdout
        assert "Rate: 0.01" in result.stdout
        assert "Retention: a record stays for at least 1 h (retention.ms)." in result.stdout
        assert "Disk: has room; the topic settles at about" in result.stdout
        assert (
            f"Groups: {group} is slowest: 7 records behind in partition 0; it loses data in 5"
            in result.stdout
        )

    def test_json_has_the_numbers(
        self, run: Run, connection: Connection, session: AdminSession, topic: str, group: str
    ) -> None:
        send_some(connection, topic)
        alter_group_offsets(session, group, {TopicPartition(topic, 0): 3})

        shown = json.loads(run("topics", "describe", topic, "-o", "json").stdout)

        first = shown["partitions"][0]
        assert (first["partition"], first["start"], first["end"], first["records"]) == (0, 0, 10, 10)
        assert first["size_bytes"] > 1_000
        outlook = shown["outlook"]
        assert outlook["retention_lasts_s"] == 604_800
        assert outlook["disk_free_bytes"] > 0
        (behind,) = outlook["groups_behind"]
        assert (behind["group"], behind["lag"], behind["lost"]) == (group, 7, 0)
        assert 604_800 - 600 < behind["time_left_s"] < 604_800

    def test_an_unknown_topic_is_not_found_and_not_created(
        self, run: Run, session: AdminSession, topic: str
    ) -> None:
        result = run("topics", "describe", topic[:-1])

        assert (result.exit_code, result.stdout) == (3, "")
        assert topic[:-1] not in topic_names(session)
