import io
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from millstream.cli import machine_checks as machine
from millstream.cli import network_checks as network
from millstream.cli.doctor import show
from millstream.cli.findings import fail
from millstream.client.connection import Connection
from millstream.model.settings import Settings
from millstream.testing import RunningNode
from tests.cli.conftest import Run

FREE_PORTS = {"MILLSTREAM_KAFKA_PORT": "0", "MILLSTREAM_AMQP_PORT": "0", "MILLSTREAM_HTTP_PORT": "0"}


def findings(run: Run, *arguments: str, env: dict[str, str] | None = None) -> dict[str, dict[str, str]]:
    result = run("doctor", "-o", "json", *arguments, env={**FREE_PORTS, **(env or {})})
    return {row["check"]: row for row in json.loads(result.stdout)}


def test_a_healthy_machine_is_ok_throughout(run: Run, bootstrap: str) -> None:
    result = run("doctor", env=FREE_PORTS)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert {line[:4].strip() for line in lines} <= {"ok", "warn"}
    assert any(line.startswith("ok") and f"{bootstrap} answers: cluster" in line for line in lines)


def test_every_check_is_there(run: Run) -> None:
    assert set(findings(run)) == {
        "millstream",
        "python",
        "packages",
        "accelerator",
        "java",
        "data directory",
        "disk space",
        "file system",
        "sync",
        "open files",
        "clock",
        "kafka port",
        "amqp port",
        "http port",
        "broker",
    }


def test_no_broker_is_a_warning_with_what_to_do(offline: Run) -> None:
    found = findings(offline, "--bootstrap", "127.0.0.1:1")["broker"]

    assert found["state"] == "warn"
    assert "millstream up" in found["advice"]


def test_something_that_failed_ends_with_1(offline: Run) -> None:
    result = offline("doctor", "-b", "127.0.0.1:1", env={**FREE_PORTS, "MILLSTREAM_NUM_PARTITIONS": "0"})

    assert result.exit_code == 1
    assert "fail  settings        num.partitions=0: must be at least 1 -> correct it" in result.stdout


def test_nothing_is_left_behind(offline: Run, tmp_path: Path) -> None:
    findings(offline, "--data", str(tmp_path), "-b", "127.0.0.1:1")

    assert list(tmp_path.iterdir()) == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("no_color", "line"), [("", "\x1b[31mfail\x1b[0m  disk  full"), ("1", "fail  disk  full")]
)
def test_states_are_coloured_on_a_terminal_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, no_color: str, line: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)

    show([fail("disk", "full", "")])

    assert terminal.getvalue() == f"{line}\n"


class TestPorts:
    def test_a_free_one_is_ok(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

        assert network.check_port("kafka", "127.0.0.1", port, "--kafka-port").state == "ok"

    def test_one_that_a_kafka_broker_serves_is_ok(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")

        found = network.check_port("kafka", host, int(port), "--kafka-port")

        assert (found.state, "answers as a Kafka broker" in found.detail) == ("ok", True)

    def test_a_nodes_health_port_is_known_by_its_answer(self, millstream_node: RunningNode) -> None:
        host, _, port = millstream_node.http_url.removeprefix("http://").rpartition(":")

        found = network.check_port("http", host, int(port), "--http-port")

        assert (found.state, "answers as HTTP" in found.detail) == ("ok", True)

    def test_one_that_someone_else_has_is_told_with_who(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            found = network.check_port("http", "127.0.0.1", port, "--http-port")

        assert found.state == "warn"
        assert "--http-port" in found.advice
        assert f"(pid {os.getpid()})" in found.detail

    def test_an_address_of_another_machine_fails(self) -> None:
        assert network.check_port("kafka", "192.0.2.1", 9092, "--kafka-port").state == "fail"

    def test_a_listener_that_cant_be_seen_is_nobody(self, tmp_path: Path) -> None:
        assert network.listener_of(9092, proc=tmp_path) is None


class TestBroker:
    def test_one_that_is_not_kafka_fails(self) -> None:
        connection = Connection(bootstrap="127.0.0.1:nowhere")

        assert network.check_bootstrap(connection).state == "fail"


class TestMachine:
    def test_the_packages_we_declare_are_installed(self) -> None:
        assert machine.check_packages().state in ("ok", "warn")

    def test_a_java_home_without_java_is_told(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

        found = machine.check_java()

        assert (found.state, str(tmp_path) in found.detail) == ("warn", True)

    @pytest.mark.parametrize(
        ("banner", "state"),
        [
            ('openjdk version "17.0.15" 2025-04-15', "ok"),
            ('openjdk version "25" 2025-09-16', "ok"),
            ('java version "1.8.0_401"', "warn"),
            ("nothing to say", "warn"),
        ],
    )
    def test_javas_version_is_read_in_every_form(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, banner: str, state: str
    ) -> None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
        java.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

        assert machine.check_java().state == state

    def test_the_file_system_is_that_of_the_deepest_mount(self, tmp_path: Path) -> None:
        mounts = tmp_path / "mounts"
        mounts.write_text(
            f"/dev/a / ext4 rw 0 0\nhost:/x {tmp_path} nfs4 rw 0 0\n/dev/b /elsewhere xfs rw 0 0\n"
        )

        assert machine.filesystem_of(tmp_path / "deep", mounts) == "nfs4"
        assert machine.filesystem_of(Path("/usr"), mounts) == "ext4"
        assert machine.filesystem_of(tmp_path, tmp_path / "none") is None

    def test_a_disk_below_the_reserve_fails(self, tmp_path: Path) -> None:
        found = machine.check_disk(tmp_path, Settings(log_disk_reserve_bytes=2**62))

        assert {finding.check: finding.state for finding in found}["disk space"] == "fail"

    def test_too_few_open_files_are_told_with_the_command(self) -> None:
        found = machine.check_open_files(Settings(log_open_files_max=10**9))

        assert found.state in ("warn", "ok")  # ok only where there is no limit
        assert found.state == "ok" or "ulimit -n" in found.advice

    def test_data_written_in_the_future_casts_doubt_on_the_clock(self, tmp_path: Path) -> None:
        segment = tmp_path / "topics" / "t-0" / "0.log"
        segment.parent.mkdir(parents=True)
        segment.touch()
        os.utime(segment, (4_000_000_000, 4_000_000_000))

        found = machine.check_clock(tmp_path)

        assert (found.state, "NTP" in found.advice) == ("warn", True)

    def test_a_directory_yet_to_be_made_is_judged_by_its_parent(self, tmp_path: Path) -> None:
        assert machine.nearest_existing(tmp_path / "a" / "b") == tmp_path
