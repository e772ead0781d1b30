import json
from collections.abc import Sequence

import pytest
import yaml

from millstream.client.connection import Connection
from millstream.client.offsets import delete_records_before
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.client.topics import topic_names
from millstream.model.topics import TopicPartition
from tests.cli.conftest import Run
from tests.client.sending import send
from tests.client.target import unused_name
from tests.client.times import MINUTE_MS, NOW_MS


def fill(connection: Connection, topic: str, values: Sequence[str], *, partition: int = 0) -> None:
    first_ms = NOW_MS - len(values) * MINUTE_MS
    send(
        connection,
        topic,
        [
            OutgoingRecord(
                key=b"k%d" % n,
                value=value.encode(),
                partition=partition,
                timestamp_ms=first_ms + n * MINUTE_MS,
            )
            for n, value in enumerate(values)
        ],
    )


def records(run: Run, topic: str, *options: str) -> list[dict[str, object]]:
    result = run("tail", topic, "--from", "beginning", "-o", "json", *options)
    return [json.loads(line) for line in result.stdout.splitlines()]


class TestProduce:
    def test_values_come_from_the_command_line(self, run: Run, topic: str) -> None:
        result = run("produce", topic, "a", "b", "--key", "k", "-p", "1", "-H", "x=1", "-H", "x=2")

        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == f"sent 2 records to {topic} (partition 1: 0-1)\n"
        first = records(run, topic)[0]
        assert (first["key"], first["value"], first["partition"]) == ("k", "a", 1)
        assert first["headers"] == [["x", "1"], ["x", "2"]]

    def test_or_from_stdin_one_a_line(self, run: Run, topic: str) -> None:
        run("produce", topic, "-p", "0", input=b"one\r\ntwo\n\nlast")

        assert [record["value"] for record in records(run, topic)] == ["one", "two", "", "last"]

    def test_a_delimiter_parts_keys_from_values_and_empty_ones_are_tombstones(
        self, run: Run, topic: str
    ) -> None:
        run("produce", topic, "-K", ":", "-Z", "-p", "0", input="a:1:2\nb:\n:3\nplain\n")

        found = [(record["key"], record["value"]) for record in records(run, topic)]

        assert found == [("a", "1:2"), ("b", None), (None, "3"), (None, "plain")]

    def test_bytes_that_are_not_text_arrive_as_they_are(self, run: Run, topic: str) -> None:
        run("produce", topic, input=b"\xff\xfe\n")

        assert run("tail", topic).stdout_bytes == b"\xff\xfe\n"

    def test_formats_say_what_the_text_means(self, run: Run, topic: str) -> None:
        run("produce", topic, "-K", "=", "-k", "int", "-v", "hex", input="7=cafe\n")

        assert run("tail", topic, "-k", "int", "-v", "hex", "--format", "%k %s %K %S").stdout == "7 cafe 4 2"

    def test_a_line_that_does_not_fit_ends_it_after_the_good_ones(self, run: Run, topic: str) -> None:
        result = run("produce", topic, "-v", "json", "-p", "0", input='{"a": 1}\n{oops\n{"a": 2}\n')

        assert result.exit_code == 2
        assert "line 2:" in result.stderr
        assert [record["value"] for record in records(run, topic)] == ['{"a": 1}']

    def test_what_tail_writes_as_json_can_be_sent_again(self, run: Run, topic: str) -> None:
        run("produce", topic, "-K", ":", "-Z", "-H", "a=1", "-p", "0", input=b"k:v\nt:\n:\xff\n")
        copy = unused_name("copy")

        lines = run("tail", topic, "--from", "beginning", "-o", "json").stdout
        sent = run("produce", copy, "--json", input=lines)

        parts = ("key", "value", "headers", "timestamp_ms")
        originals, copies = records(run, topic), records(run, copy)
        assert sent.exit_code == 0
        assert [[record[part] for part in parts] for record in copies] == [
            [record[part] for part in parts] for record in originals
        ]

    @pytest.mark.parametrize("line", ["[]", '{"key": "a"}', "{", '{"value": 1, "headers": 5}'])
    def test_json_that_is_not_a_record_is_refused(self, run: Run, topic: str, line: str) -> None:
        result = run("produce", topic, "--json", input=line)

        assert result.exit_code == 2
        assert "line 1:" in result.stderr

    def test_a_topic_made_by_a_typing_error_is_mentioned(self, run: Run, session: AdminSession) -> None:
        name = unused_name("oders")

        result = run("produce", name, "x")

        assert f"topic {name} did not exist; the broker created it" in result.stderr
        assert name in topic_names(session)

    def test_the_report_can_be_had_as_json(self, run: Run, topic: str) -> None:
        result = run("produce", topic, "four", "-p", "0", "-o", "json", "-z", "zstd")

        assert json.loads(result.stdout) == {
            "topic": topic,
            "records": 1,
            "value_bytes": 4,
            "partitions": [{"partition": 0, "first": 0, "last": 0}],
        }

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["x", "--key", "a", "-K", ":"], 2),
            (["x", "-p", "99"], 3),
            (["x", "-H", "=1"], 2),
            (["zz", "-v", "hex"], 2),
            (["x", "-X", "no.such=1"], 2),
            (["x" * 2_000_000], 1),
        ],
        ids=["two keys", "no such partition", "no header name", "not hex", "no such option", "too large"],
    )
    def test_what_cant_be_sent_is_refused_in_one_line(
        self, run: Run, topic: str, arguments: list[str], code: int
    ) -> None:
        result = run("produce", topic, *arguments)

        assert result.exit_code == code
        assert result.stderr.count("\n") == 1


class TestTail:
    def test_the_last_ten_values_are_what_it_shows(
        self, run: Run, connection: Connection, topic: str
    ) -> None:
        fill(connection, topic, [str(n) for n in range(15)])

        result = run("tail", topic)

        assert result.stdout.split() == [str(n) for n in range(5, 15)]
        assert (result.exit_code, result.stderr) == (0, "")

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            (["--from", "beginning"], "abcde"),
            (["--from", "3"], "de"),
            (["--from", "-2"], "de"),
            (["-n", "1"], "e"),
            (["--from", "end", "--no-follow"], ""),
            (["--from", f"@{NOW_MS - 3 * MINUTE_MS}"], "cde"),
            (["--from", "7d"], "abcde"),
            (["--from", "beginning", "--count", "2"], "ab"),
            (["--from", "end", "--count", "0"], ""),
        ],
        ids=lambda value: str(value).partition("@")[0],
    )
    def test_reading_starts_at_a_place(
        self, run: Run, connection: Connection, topic: str, where: list[str], expected: str
    ) -> None:
        fill(connection, topic, "abcde")

        result = run("tail", topic, *where, "--format", "%s")

        assert (result.exit_code, result.stdout) == (0, expected)

    def test_keys_can_be_written_before_values(self, run: Run, connection: Connection, topic: str) -> None:
        fill(connection, topic, ["v"])

        assert run("tail", topic, "-K", "%").stdout == "k0%v\n"

    def test_partitions_can_be_chosen(self, run: Run, connection: Connection, topic: str) -> None:
        fill(connection, topic, ["a"], partition=0)
        fill(connection, topic, ["b"], partition=1)

        assert run("tail", topic, "-p", "1").stdout == "b\n"
        assert run("tail", topic, "-p", "5").exit_code == 3

    def test_whole_records_come_as_json_yaml_or_rows(
        self, run: Run, connection: Connection, topic: str
    ) -> None:
        fill(connection, topic, ['{"a": 1}'])

        as_json = json.loads(run("tail", topic, "-o", "json", "-v", "json").stdout)
        (as_yaml,) = yaml.safe_load_all(run("tail", topic, "-o", "yaml", "-v", "json").stdout)
        heading, row = run("tail", topic, "-o", "table").stdout.splitlines()

        assert as_json == as_yaml
        assert as_json["value"] == {"a": 1}
        assert heading.split() == ["PARTITION", "OFFSET", "TIME", "KEY", "VALUE"]
        assert row.endswith('k0                    {"a": 1}')

    def test_an_end_before_the_count_is_mentioned(self, run: Run, connection: Connection, topic: str) -> None:
        fill(connection, topic, "ab")

        result = run("tail", topic, "--from", "beginning", "--count", "5")

        assert result.stderr == f"{topic} ended after 2 records\n"

    def test_offsets_that_are_gone_are_mentioned(
        self, run: Run, connection: Connection, session: AdminSession, topic: str
    ) -> None:
        fill(connection, topic, "abcde", partition=0)
        fill(connection, topic, "xyz", partition=1)
        delete_records_before(session, {TopicPartition(topic, 0): 3})

        result = run("tail", topic, "--from", "1", "--format", "%s")

        assert sorted(result.stdout) == ["d", "e", "y", "z"]
        assert result.stderr == f"{topic}-0: offsets 1 to 2 are gone; starting at 3\n"

    def test_an_offset_that_was_never_there_fails(self, run: Run, topic: str) -> None:
        result = run("tail", topic, "--from", "100")

        assert result.exit_code == 1
        assert "offset 100 is outside [0, 0]" in result.stderr

    @pytest.mark.parametrize(
        "options",
        [
            ["--from", "soon"],
            ["--from", "end", "-n", "3"],
            ["--format", "%q"],
            ["--format", "%s", "-o", "json"],
            ["-o", "xml"],
            ["-v", "avro"],
        ],
        ids=str,
    )
    def test_what_is_not_understood_is_refused_before_a_broker_is_asked(
        self, offline: Run, options: list[str]
    ) -> None:
        result = offline("tail", "t", *options)

        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1

    def test_an_unknown_topic_is_not_found_and_not_created(
        self, run: Run, session: AdminSession, topic: str
    ) -> None:
        result = run("tail", topic[:-1])

        assert result.exit_code == 3
        assert f"did you mean '{topic}'?" in result.stderr
        assert topic[:-1] not in topic_names(session)
