"""Commands as processes of their own: what a shell and a script see."""

import os
import pty
import signal
import socket
import subprocess
import sys

import pytest

from millstream.client.connection import Connection
from millstream.client.records import OutgoingRecord
from millstream.client.session import AdminSession
from millstream.client.topics import topic_names
from tests.cli.conftest import Command
from tests.client.sending import send

MILLSTREAM = [sys.executable, "-m", "millstream.cli.main"]


def test_data_goes_to_stdout_and_words_to_stderr(command: Command, topic: str) -> None:
    sent = command("produce", topic, "hello")
    read = command("tail", topic)

    assert (sent.returncode, sent.stdout) == (0, b"")
    assert sent.stderr.startswith(b"sent 1 records")
    assert (read.returncode, read.stdout, read.stderr) == (0, b"hello\n", b"")


def test_a_topic_that_is_not_there_ends_with_3(command: Command) -> None:
    answer = command("tail", "nowhere-at-all")

    assert (answer.returncode, answer.stdout) == (3, b"")
    assert answer.stderr.count(b"\n") == 1


def test_an_unreachable_broker_ends_with_4_and_what_to_do(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    answer = command("topics", "list", "--bootstrap", f"127.0.0.1:{port}")

    assert answer.returncode == 4
    assert (
        answer.stderr
        == (
            f"millstream: no broker answers at 127.0.0.1:{port} (connection refused): "
            "start one with `millstream up`, or name another with --bootstrap\n"
        ).encode()
    )


def test_wrong_usage_ends_with_2(command: Command) -> None:
    assert command("topics", "list", "-o", "xml").returncode == 2


def test_a_reader_that_has_enough_ends_it_quietly(bootstrap: str, connection: Connection, topic: str) -> None:
    send(connection, topic, [OutgoingRecord(value=b"x" * 1_000)] * 2_000)
    tail = subprocess.Popen(
        [*MILLSTREAM, "tail", topic, "--from", "beginning", "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert tail.stdout is not None

    tail.stdout.readline()
    tail.stdout.close()

    assert tail.stderr is not None
    assert tail.stderr.read() == b""
    assert tail.wait(timeout=30) == 0


def test_ctrl_c_ends_a_following_tail_quietly_with_130(
    bootstrap: str, connection: Connection, topic: str
) -> None:
    send(connection, topic, [OutgoingRecord(value=b"first")])
    tail = subprocess.Popen(
        [*MILLSTREAM, "tail", topic, "-f", "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell's background job starts with SIGINT ignored, and so may these tests.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert tail.stdout is not None
    first = tail.stdout.readline()
    send(connection, topic, [OutgoingRecord(value=b"second")])
    second = tail.stdout.readline()

    tail.send_signal(signal.SIGINT)
    rest, words = tail.communicate(timeout=30)

    assert (first, second, rest, words) == (b"first\n", b"second\n", b"", b"")
    assert tail.returncode == 130


@pytest.mark.parametrize(("answer", "code", "is_gone"), [("n", 1, False), ("y", 0, True)])
def test_a_person_at_a_terminal_is_asked(
    bootstrap: str, session: AdminSession, topic: str, answer: str, code: int, is_gone: bool
) -> None:
    ours, theirs = pty.openpty()
    delete = subprocess.Popen(
        [*MILLSTREAM, "topics", "delete", topic, "--bootstrap", bootstrap],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.write(ours, f"{answer}\n".encode())

    output, words = delete.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert f"Delete {topic} (0 records)? [y/N]:".encode() in words
    assert (delete.returncode, output) == (code, b"")
    assert (topic not in topic_names(session)) is is_gone


def test_a_node_can_be_started_used_and_stopped(tmp_path: object) -> None:
    node = subprocess.Popen(
        [*MILLSTREAM, "up", "--data", f"{tmp_path}/data", "--kafka-port=0", "--amqp-port=0", "--http-port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert node.stdout is not None
    try:
        ready = node.stdout.readline()
        address = ready.split()[2].removeprefix("kafka=")
        created = subprocess.run(
            [*MILLSTREAM, "topics", "create", "orders", "-b", address],
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        node.terminate()
        rest, _ = node.communicate(timeout=60)

    assert ready.startswith("millstream ready kafka=127.0.0.1:")
    assert created.stderr == b"created orders\n"
    assert (rest, node.returncode) == ("", 0)


def test_a_second_node_on_the_same_port_says_so(bootstrap: str, tmp_path: object) -> None:
    port = bootstrap.rpartition(":")[2]

    answer = subprocess.run(
        [
            *MILLSTREAM,
            "up",
            "--data",
            f"{tmp_path}/d",
            "--kafka-port",
            port,
            "--amqp-port=0",
            "--http-port=0",
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert answer.returncode != 0
    assert answer.stdout == b""
    assert b"--kafka-port" in answer.stderr
    assert b"Traceback" not in answer.stderr


def test_records_are_written_as_they_come(bootstrap: str, topic: str) -> None:
    """Typed lines reach the broker while stdin stays open: nothing waits for the end of input."""
    produce = subprocess.Popen(
        [*MILLSTREAM, "produce", topic, "--bootstrap", bootstrap],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    tail = subprocess.Popen(
        [*MILLSTREAM, "tail", topic, "--from", "beginning", "-f", "-c", "1", "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert produce.stdin is not None

    produce.stdin.write(b"now\n")
    produce.stdin.flush()
    seen, _ = tail.communicate(timeout=60)
    still_running = produce.poll() is None
    produce.communicate(timeout=60)

    assert seen == b"now\n"
    assert still_running
    assert produce.returncode == 0


def test_a_tail_survives_a_restart_of_its_broker(tmp_path: object) -> None:
    if os.environ.get("MILLSTREAM_TEST_BOOTSTRAP"):
        pytest.skip("the broker is not ours to restart")
    from millstream.testing import running_node

    with running_node(f"{tmp_path}/data") as node:
        connection = Connection(bootstrap=node.bootstrap_servers)
        send(connection, "orders", [OutgoingRecord(value=b"before")])
        tail = subprocess.Popen(
            [*MILLSTREAM, "tail", "orders", "-f", "-c", "2", "-b", node.bootstrap_servers],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert tail.stdout is not None
        first = tail.stdout.readline()

        node.restart()
        send(connection, "orders", [OutgoingRecord(value=b"after")])
        second, _ = tail.communicate(timeout=60)

    assert (first, second, tail.returncode) == (b"before\n", b"after\n", 0)
