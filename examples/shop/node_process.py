"""A node as a process of its own, so that it can be killed.

Why: what survives `kill -9` can only be shown with a real process, started the way a user starts one.
Invariants: the ports stay the same from start to start; leaving the context ends the process.
"""

import os
import random
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_READY = re.compile(r"millstream ready kafka=(\S+) amqp=\S+ http=(\S+)")
_STOP_SECONDS_MAX = 30


class NodeDidNotStart(Exception):
    """`millstream up` ended before it served; the message holds its last words."""


class NodeProcess:
    def __init__(self, directory: Path) -> None:
        self.bootstrap_servers = ""
        self.http_address = ""
        self.pid = 0
        self.started_in_seconds = 0.0
        self._directory = directory
        self._ports = _unused_ports(3)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Run `millstream up` on the data that is there; returns when it serves."""
        kafka, amqp, http = map(str, self._ports)
        command = [sys.executable, "-m", "millstream.cli.main", "up", "--data", str(self._directory / "data")]
        command += ["--kafka-port", kafka, "--amqp-port", amqp, "--http-port", http]
        command += ["--set", "log.fsync=always"]
        began = time.monotonic()
        with (self._directory / "node.log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_without_settings(),
                # Ctrl-C is for the demo, which stops the node itself.
                start_new_session=True,
            )
        assert self._process.stdout is not None
        ready = _READY.match(self._process.stdout.readline())
        if ready is None:
            self._process.kill()
            self._process.wait()
            raise NodeDidNotStart(self._last_words())
        self.started_in_seconds = time.monotonic() - began
        self.pid = self._process.pid
        self.bootstrap_servers, self.http_address = ready.groups()

    def kill(self) -> None:
        """SIGKILL: no farewell, no last sync."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def __enter__(self) -> "NodeProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = (self._directory / "node.log").read_text(errors="replace").splitlines()
            return "\n".join(lines[-5:])
        return "it left no word"


def _unused_ports(count: int) -> list[int]:
    """Ports below those that the system gives to outgoing connections.

    While the node is down its clients knock at its port; a port of the outgoing range might be given to one of
    them, and the node could not come back to it.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 32_000), 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise NodeDidNotStart("no free port was found between 20000 and 32000")


def _without_settings() -> dict[str, str]:
    """The environment, without settings that were meant for another node."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM_")}
