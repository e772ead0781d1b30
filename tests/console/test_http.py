"""The HTTP door, asked over real connections."""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from millstream import __version__
from millstream.console import protocol
from millstream.console.app import is_loopback_name
from millstream.console.http import HttpDoor
from millstream.console.status import MetricsSnapshot, PartitionMetrics


@dataclass
class FakeNode:
    """A node in whatever state the test wants."""

    is_live: bool = True
    readiness: tuple[bool, str] = (True, "")
    snapshot: MetricsSnapshot = field(default_factory=MetricsSnapshot)
    failure: Exception | None = None

    def live(self) -> bool:
        return self.is_live

    def ready(self) -> tuple[bool, str]:
        return self.readiness

    def metrics(self) -> MetricsSnapshot:
        if self.failure is not None:
            raise self.failure
        return self.snapshot


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def door(listener: socket.socket, node: FakeNode) -> Iterator[HttpDoor]:
    door = HttpDoor(listener, node)
    door.start()
    yield door
    door.stop()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(listener: socket.socket, path: str, *, method: str = "GET", host: str | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=30)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    answer = Answer(response.status, headers, response.read())
    connection.close()
    return answer


@pytest.mark.usefixtures("door")
class TestAnswers:
    def test_a_live_and_ready_node_says_so(self, listener: socket.socket) -> None:
        assert (ask(listener, "/livez").status, ask(listener, "/readyz").status) == (200, 200)
        assert ask(listener, "/readyz").json == {"status": "ready"}

    def test_a_node_that_is_not_ready_says_why(self, listener: socket.socket, node: FakeNode) -> None:
        node.readiness = (False, "recovering 3 of 40 partitions")

        answer = ask(listener, "/readyz")

        assert answer.status == 503
        assert answer.json == {"status": "not ready", "reason": "recovering 3 of 40 partitions"}

    def test_a_node_that_hangs_is_not_live(self, listener: socket.socket, node: FakeNode) -> None:
        node.is_live = False

        assert ask(listener, "/livez").status == 503

    def test_metrics_are_text_for_prometheus(self, listener: socket.socket, node: FakeNode) -> None:
        node.snapshot = MetricsSnapshot(
            partitions=[
                PartitionMetrics(topic="t", partition=0, start_offset=0, end_offset=12, size_bytes=99)
            ]
        )

        answer = ask(listener, "/metrics")

        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'kafka_topic_partition_current_offset{partition="0",topic="t"} 12.0' in answer.body.decode()

    def test_a_node_that_gives_no_metrics_is_reported(self, listener: socket.socket, node: FakeNode) -> None:
        node.failure = TimeoutError("2 s")

        answer = ask(listener, "/metrics")

        assert answer.status == 503
        assert "did not answer" in answer.json["error"]

    def test_the_root_tells_the_version_and_where_to_go(self, listener: socket.socket) -> None:
        answer = ask(listener, "/")

        assert (answer.status, answer.json["version"]) == (200, __version__)
        assert answer.json["links"]["metrics"] == "/metrics"

    def test_unknown_paths_are_not_found_in_json(self, listener: socket.socket) -> None:
        answer = ask(listener, "/nothing/here")

        assert answer.status == 404
        assert answer.json == {"error": "GET /nothing/here: not found"}

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_wrong_methods_are_refused_in_json(self, listener: socket.socket, method: str) -> None:
        answer = ask(listener, "/metrics", method=method)

        assert answer.status == 405
        assert "GET" in answer.headers["allow"]
        assert answer.json == {"error": f"{method} /metrics: method not allowed"}

    def test_head_is_answered_without_a_body(self, listener: socket.socket) -> None:
        answer = ask(listener, "/livez", method="HEAD")

        assert (answer.status, answer.body) == (200, b"")

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", ""])
    def test_a_name_that_only_resolves_to_this_machine_is_refused(
        self, listener: socket.socket, host: str
    ) -> None:
        assert ask(listener, "/metrics", host=host).status == 421

    def test_garbage_is_refused_and_the_next_request_answered(self, listener: socket.socket) -> None:
        with socket.create_connection(listener.getsockname(), timeout=30) as garbage:
            garbage.sendall(b"\x00\x00\x00\x10 not http\r\n\r\n")
            refusal = garbage.recv(1000)

        assert b"400" in refusal
        assert ask(listener, "/livez").status == 200


def test_half_a_request_ends_its_connection_in_time(
    listener: socket.socket, door: HttpDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "REQUEST_SECONDS", 0.05)

    with socket.create_connection(listener.getsockname(), timeout=30) as slow:
        slow.sendall(b"GET /livez HTTP/1.1\r\nHost: loc")
        ended = read_until_closed(slow)

    assert ended == b""


def test_connections_beyond_the_bound_are_dropped(
    listener: socket.socket, door: HttpDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CONNECTIONS_MAX", 1)
    with socket.create_connection(listener.getsockname(), timeout=30) as first:
        first.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        served = first.recv(1000)

        with socket.create_connection(listener.getsockname(), timeout=30) as second:
            dropped = read_until_closed(second)

    assert b"200 OK" in served
    assert dropped == b""


def read_until_closed(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1000)
    except ConnectionResetError:
        return b""


def test_stopping_ends_the_thread_and_leaves_the_socket_to_the_caller(
    listener: socket.socket, node: FakeNode
) -> None:
    before = set(threading.enumerate())
    door = HttpDoor(listener, node)
    door.start()
    ask(listener, "/livez")

    door.stop()

    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "millstream-http"]
    assert listener.fileno() != -1


def test_stopping_a_door_that_nobody_used_or_opened_is_quiet(listener: socket.socket, node: FakeNode) -> None:
    before = set(threading.enumerate())
    unused, unopened = HttpDoor(listener, node), HttpDoor(listener, node)
    unused.start()

    unused.stop()
    unused.stop()
    unopened.stop()

    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "millstream-http"]


def test_the_web_server_is_imported_only_when_somebody_asks() -> None:
    code = "import sys, millstream.console.http; print({'uvicorn', 'starlette'} & set(sys.modules))"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "set()"


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8642", "127.0.0.1:1", "127.8.8.8", "[::1]:8642", "[::1]", "app.localhost"],
)
def test_names_of_this_machine_are_taken(host: str) -> None:
    assert is_loopback_name(host)


@pytest.mark.parametrize(
    "host", ["example.org", "10.0.0.1", "localhost.example.org", "[2001:db8::1]:80", "::1"]
)
def test_other_names_are_not(host: str) -> None:
    assert not is_loopback_name(host)
