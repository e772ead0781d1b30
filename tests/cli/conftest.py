import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from millstream.cli.root import app
from millstream.client.connection import Connection
from millstream.client.session import AdminSession
from millstream.client.topics import create_topic
from tests.client.target import running_target, unused_name

Run = Callable[..., Result]
Command = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with running_target() as address:
        yield address


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap=bootstrap)


@pytest.fixture
def session(connection: Connection) -> Iterator[AdminSession]:
    with AdminSession(connection) as opened:
        yield opened


@pytest.fixture
def topic(session: AdminSession) -> str:
    """A new topic with two partitions."""
    name = unused_name("topic")
    create_topic(session, name, partitions=2)
    return name


@pytest.fixture
def group() -> str:
    return unused_name("group")


@pytest.fixture(autouse=True)
def _away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it, or writes into their directories."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for name in [name for name in os.environ if name.startswith("MILLSTREAM_") and "TEST" not in name]:
        monkeypatch.delenv(name)


def invoke(*arguments: str, input: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=input, env=env)


@pytest.fixture
def offline() -> Run:
    """Runs a command in this process, without a broker."""
    return invoke


@pytest.fixture
def run(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process; its broker is the suite's."""
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP", bootstrap)
    return invoke


def millstream(
    *arguments: str, input: bytes | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "millstream.cli.main", *arguments],
        input=input,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
    )


@pytest.fixture
def command(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command as a process of its own; its broker is the suite's."""
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP", bootstrap)
    return millstream
