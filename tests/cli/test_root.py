import json
import subprocess
import sys
from typing import Any

import pytest
import typer

from millstream.cli import exits
from millstream.cli.root import COMMANDS, app
from millstream.client.errors import (
    BrokerRefused,
    BrokerTimedOut,
    BrokerUnreachable,
    GroupInUse,
    InvalidOption,
    TopicExists,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from millstream.model.errors import BadRequest, InvalidSetting, MillstreamError
from tests.cli.conftest import Run


def every_command() -> list[tuple[str, Any]]:
    """(path, command) of the whole tree."""
    root: Any = typer.main.get_command(app)
    found = []
    waiting = [(name, root.get_command(None, name)) for name in COMMANDS]
    while waiting:
        path, command = waiting.pop()
        found.append((path, command))
        waiting += [
            (f"{path} {name}", inner) for name, inner in (getattr(command, "commands", None) or {}).items()
        ]
    return sorted(found, key=lambda pair: pair[0])


EVERY_COMMAND = every_command()


def test_help_lists_every_command_and_the_exit_codes(offline: Run) -> None:
    result = offline("--help")

    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.stdout for name in COMMANDS)
    assert "4 broker" in result.stdout


@pytest.mark.parametrize(("path", "command"), EVERY_COMMAND, ids=[path for path, _ in EVERY_COMMAND])
def test_every_command_teaches_by_example(path: str, command: Any) -> None:
    assert "\b\n" in command.help
    assert f"millstream {path.split()[0]}" in command.help


@pytest.mark.parametrize(("path", "command"), EVERY_COMMAND, ids=[path for path, _ in EVERY_COMMAND])
def test_every_option_is_explained(path: str, command: Any) -> None:
    silent = [p.name for p in command.params if not p.help]

    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_short_help_in_the_list_is_that_of_the_command(name: str) -> None:
    assert COMMANDS[name].help.endswith(".")


def test_without_a_command_it_shows_help_on_stderr(offline: Run) -> None:
    result = offline()

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: millstream")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["topcs"], "No such command 'topcs'. Did you mean 'topics'?: see `millstream --help`"),
        (["topics", "lst"], "No such command 'lst'. Did you mean 'list'?: see `millstream topics --help`"),
        (["topics", "list", "--xyz"], "No such option: --xyz: see `millstream topics list --help`"),
        (["topics", "describe"], "Missing argument 'TOPIC': see `millstream topics describe --help`"),
        (["up", "--kafka-port"], "Option '--kafka-port' requires an argument: see `millstream up --help`"),
    ],
)
def test_wrong_usage_is_told_in_one_line(offline: Run, arguments: list[str], sentence: str) -> None:
    result = offline(*arguments)

    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"millstream: {sentence}\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownTopic("t"), 3),
        (UnknownPartition("t", 1), 3),
        (UnknownGroup("g"), 3),
        (BrokerUnreachable("a:1", "refused"), 4),
        (BrokerTimedOut("a:1", "slow"), 4),
        (TopicExists("t"), 1),
        (GroupInUse("g"), 1),
        (BrokerRefused("t", "POLICY_VIOLATION", "no"), 1),
        (BadRequest("wrong"), 2),
        (InvalidSetting("a", 1, "wrong"), 2),
        (InvalidOption("wrong"), 2),
        (MillstreamError("other"), 1),
        (ValueError("a fault"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_family_of_errors_has_its_exit_code(error: Exception, code: int) -> None:
    assert exits.exit_code_of(error) == code


def test_a_fault_of_ours_is_one_line_without_a_traceback(
    offline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.cli.version.versions_in_use", lambda: 1 / 0)

    result = offline("version")

    assert result.exit_code == 1
    assert result.stderr.startswith("millstream: unexpected ZeroDivisionError")
    assert "Traceback" not in result.stderr


def test_the_traceback_is_there_for_those_who_ask(offline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.cli.version.versions_in_use", lambda: 1 / 0)

    assert "Traceback" in offline("version", env={"MILLSTREAM_DEBUG": "1"}).stderr


def test_an_interrupted_command_is_quiet(offline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("millstream.cli.version.versions_in_use", interrupted)

    result = offline("version")

    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


def test_an_operating_system_error_says_where_and_what_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.report(PermissionError(13, "Permission denied", "/data")) == 1

    assert capsys.readouterr().err == (
        "millstream: /data: Permission denied: check the path, its permissions and the disk\n"
    )


def test_the_version_is_told_by_flag_and_by_command(offline: Run) -> None:
    from millstream import __version__

    assert offline("--version").stdout == f"millstream {__version__}\n"
    assert json.loads(offline("version", "-o", "json").stdout)["millstream"] == __version__


def test_help_needs_neither_the_client_nor_the_table_writer() -> None:
    program = (
        "import json, sys\n"
        "sys.argv = ['millstream', '--help']\n"
        "from millstream.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted(set(sys.modules))), file=sys.stderr)\n"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)

    loaded = {name.partition(".")[0] for name in json.loads(answer.stderr)}
    assert loaded & {"rich", "confluent_kafka", "yaml", "uvloop", "asyncio"} == set()
