import json

import pytest

from millstream.client.connection import Connection
from millstream.client.groups import alter_group_offsets, group_names, group_offsets
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.model.topics import TopicPartition
from tests.cli.conftest import Run
from tests.client.sending import send
from tests.client.test_groups import member
from tests.client.times import MINUTE_MS, NOW_MS


@pytest.fixture
def behind(connection: Connection, session: AdminSession, topic: str, group: str) -> str:
    """A group at offset 6 of ten records that are one minute apart."""
    records = [
        OutgoingRecord(value=b"v", partition=0, timestamp_ms=NOW_MS - (9 - n) * MINUTE_MS) for n in range(10)
    ]
    send(connection, topic, records)
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 6})
    return group


class TestList:
    def test_groups_are_shown_with_their_state_and_on_demand_their_lag(self, run: Run, behind: str) -> None:
        plain = {row["name"]: row for row in json.loads(run("groups", "list", "-o", "json").stdout)}
        lagging = {
            row["name"]: row for row in json.loads(run("groups", "list", "--lag", "-o", "json").stdout)
        }

        assert plain[behind]["state"] == "empty"
        assert "lag" not in plain[behind]
        assert lagging[behind]["lag"] == 4

    def test_names_alone_are_one_a_line(self, run: Run, behind: str) -> None:
        assert behind in run("groups", "list", "-q").stdout.splitlines()


class TestDescribe:
    def test_lag_is_told_in_records_and_in_time(self, run: Run, behind: str, topic: str) -> None:
        shown = json.loads(run("groups", "describe", behind, "-o", "json").stdout)

        assert shown["lag"] == 4
        (part,) = shown["partitions"]
        assert (part["topic"], part["committed"], part["end"], part["lost"]) == (topic, 6, 10, 0)
        assert part["behind_s"] >= 3 * 60

    def test_the_table_has_it_too(self, run: Run, behind: str, topic: str) -> None:
        result = run("groups", "describe", behind)

        assert f"Group {behind}: empty" in result.stdout
        assert "BEHIND" in result.stdout
        assert topic in result.stdout

    def test_members_are_shown_with_what_they_read(
        self, run: Run, connection: Connection, topic: str, group: str
    ) -> None:
        with member(connection, group, topic):
            shown = json.loads(run("groups", "describe", group, "-o", "json").stdout)

        assert shown["state"] == "stable"
        assert shown["members"][0]["partitions"] == [f"{topic}-0", f"{topic}-1"]

    def test_an_unknown_group_is_not_found(self, run: Run, behind: str) -> None:
        result = run("groups", "describe", f"{behind}x")

        assert result.exit_code == 3
        assert f"did you mean '{behind}'?" in result.stderr


class TestDelete:
    def test_it_is_gone_after_yes(self, run: Run, session: AdminSession, behind: str) -> None:
        assert run("groups", "delete", behind).exit_code == 2
        assert run("groups", "delete", behind, "--dry-run").stderr == f"would delete {behind}\n"
        assert behind in group_names(session)

        assert run("groups", "delete", behind, "--yes").exit_code == 0
        assert behind not in group_names(session)

    def test_one_with_members_is_kept(self, run: Run, connection: Connection, topic: str, group: str) -> None:
        with member(connection, group, topic):
            result = run("groups", "delete", group, "--yes")

        assert result.exit_code == 1
        assert "stop its consumers" in result.stderr

    def test_an_unknown_one_is_not_found(self, run: Run) -> None:
        assert run("groups", "delete", "nowhere-at-all", "--yes").exit_code == 3


class TestReset:
    @pytest.mark.parametrize(
        ("where", "offset", "again", "skipped"),
        [
            (["--to-earliest"], 0, 6, 0),
            (["--to-latest"], 10, 0, 4),
            (["--to-offset", "8"], 8, 0, 2),
            (["--to-datetime", f"@{NOW_MS - 5 * MINUTE_MS}"], 4, 2, 0),
            (["--by-duration", "6000s"], 0, 6, 0),
            (["--shift-by", "-2"], 4, 2, 0),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_the_group_moves_after_a_preview(
        self,
        run: Run,
        session: AdminSession,
        behind: str,
        topic: str,
        where: list[str],
        offset: int,
        again: int,
        skipped: int,
    ) -> None:
        result = run("groups", "reset", behind, *where, "--yes", "-o", "json")

        (row,) = json.loads(result.stdout)
        assert (row["current"], row["new"], row["read_again"], row["skipped"]) == (6, offset, again, skipped)
        assert f"{again} records read again, {skipped} skipped" in result.stderr
        assert group_offsets(session, behind) == {TopicPartition(topic, 0): offset}

    def test_a_dry_run_shows_and_changes_nothing(
        self, run: Run, session: AdminSession, behind: str, topic: str
    ) -> None:
        result = run("groups", "reset", behind, "--to-earliest", "--dry-run")

        assert "READ AGAIN" in result.stdout
        assert f"would move {behind} in 1 partitions: 6 records read again, 0 skipped" in result.stderr
        assert group_offsets(session, behind) == {TopicPartition(topic, 0): 6}

    def test_a_script_must_say_yes(self, run: Run, behind: str) -> None:
        result = run("groups", "reset", behind, "--to-earliest")

        assert result.exit_code == 2
        assert "pass --yes" in result.stderr

    def test_partitions_can_be_named(self, run: Run, session: AdminSession, behind: str, topic: str) -> None:
        result = run("groups", "reset", behind, "-t", f"{topic}:1", "--to-earliest", "--yes")

        assert result.exit_code == 0
        assert group_offsets(session, behind) == {TopicPartition(topic, 0): 6, TopicPartition(topic, 1): 0}

    def test_a_new_group_can_be_given_a_place(
        self, run: Run, session: AdminSession, topic: str, group: str
    ) -> None:
        result = run("groups", "reset", group, "-t", topic, "--to-latest", "--yes")

        assert result.exit_code == 0
        assert "does not exist yet" in result.stderr
        assert set(group_offsets(session, group)) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}

    def test_one_that_is_there_already_is_left_alone(self, run: Run, behind: str) -> None:
        assert run("groups", "reset", behind, "--to-offset", "6").stderr == f"{behind} is already there\n"

    def test_a_group_with_members_is_not_moved(
        self, run: Run, connection: Connection, topic: str, group: str
    ) -> None:
        with member(connection, group, topic):
            result = run("groups", "reset", group, "-t", topic, "--to-earliest", "--yes")

        assert result.exit_code == 1
        assert "active members" in result.stderr

    @pytest.mark.parametrize(
        "where",
        [
            [],
            ["--to-earliest", "--to-latest"],
            ["--to-datetime", "soon"],
            ["--by-duration", "5"],
            ["--to-earliest", "-t", "orders:x"],
        ],
    )
    def test_a_place_must_be_named_once_and_understood(self, offline: Run, where: list[str]) -> None:
        result = offline("groups", "reset", "g", *where)

        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1

    def test_an_unknown_group_is_not_found(self, run: Run) -> None:
        assert run("groups", "reset", "nowhere-at-all", "--to-earliest").exit_code == 3
