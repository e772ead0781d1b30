import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from millstream.cli.start import FLAGS, UpFlags, read_flags
from tests.cli.conftest import Run


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a node was started with, in place of a running one."""
    calls: list[dict[str, Any]] = []

    def run_node(settings: Any, **places: Any) -> int:
        calls.append({"settings": settings, **places})
        places["announce"]("millstream ready kafka=here:1 amqp=here:2 http=here:3")
        return 0

    monkeypatch.setattr("millstream.node.run.run_node", run_node)
    return calls


def test_flags_reach_the_node(offline: Run, started: list[dict[str, Any]]) -> None:
    result = offline("up", "--data", "/d", "--kafka-port", "0", "--host", "0.0.0.0", "--set", "log.fsync=os")

    (call,) = started
    assert result.exit_code == 0
    assert call["data"] == Path("/d")
    assert (call["kafka_port"], call["amqp_port"], call["http_port"]) == (0, 5672, 8642)
    assert (call["settings"].host, call["settings"].log_fsync) == ("0.0.0.0", "os")


def test_stdout_carries_the_ready_line_and_nothing_else(offline: Run, started: list[dict[str, Any]]) -> None:
    result = offline("up", env={"MILLSTREAM_LOG_FSYCN": "os"})

    assert result.stdout == "millstream ready kafka=here:1 amqp=here:2 http=here:3\n"
    assert "MILLSTREAM_LOG_FSYCN is not a setting" in result.stderr


def test_the_nodes_exit_code_is_ours(offline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.node.run.run_node", lambda settings, **places: 7)

    assert offline("up").exit_code == 7


@pytest.mark.parametrize("pair", ["no-value", "=3", "num.partition=3", "num.partitions=none"])
def test_a_wrong_setting_is_refused_in_one_line(offline: Run, pair: str) -> None:
    result = offline("up", "--set", pair)

    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


class TestTheShortWay:
    """`start.read_flags` must understand what the full parser does, or leave it to that."""

    def test_it_reads_both_spellings(self) -> None:
        flags = read_flags(["--data", "/d", "--kafka-port=0", "--set", "a=b=c", "--set=d=e", "--config", "f"])

        assert flags == UpFlags(
            values={"data": "/d", "kafka.port": "0"}, assignments=["a=b=c", "d=e"], config=Path("f")
        )

    @pytest.mark.parametrize(
        "arguments", [["--help"], ["-h"], ["--nope", "1"], ["--data"], ["--data", "--host"], ["stray"]]
    )
    def test_it_leaves_everything_unusual_to_the_full_parser(self, arguments: list[str]) -> None:
        assert read_flags(arguments) is None

    def test_it_knows_exactly_the_flags_of_the_full_parser(self) -> None:
        from millstream.cli.up import app

        command: Any = typer.main.get_command(app)
        flags = {name for parameter in command.params for name in parameter.opts}

        assert flags - {"-h", "--help"} == {*FLAGS, "--set", "--config"}

    def test_nothing_heavy_is_imported_on_the_way_to_a_node(self, tmp_path: Path) -> None:
        program = (
            "import json, sys\n"
            "import millstream.node.run\n"
            "ours = set(sys.modules)\n"
            "millstream.node.run.run_node = lambda *a, **k: 0\n"
            "sys.argv = ['millstream', 'up', '--data', 'd']\n"
            "from millstream.cli.main import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print(json.dumps(sorted(set(sys.modules))))\n"
        )

        answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)

        loaded = {name.partition(".")[0] for name in json.loads(answer.stdout)}
        assert loaded & {"typer", "rich", "confluent_kafka", "pydantic", "yaml", "kio"} == set()
