"""A Millstream node in a process of its own, through the command that never changes.

Why: restarts, kills and measurements need a process; `millstream up` is what a user starts.
Invariants: the ready line tells the ports; leaving the context ends the process, whatever happened inside;
the data directory stays until then, so `start` after `stop` or `kill` finds it.
"""

import contextlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
_READY = re.compile(r"^millstream ready kafka=(\S+) amqp=(\S+) http=(\S+)")


class MillstreamStartError(Exception):
    """The node did not print its ready line; the message ends with its last lines of output."""


class MillstreamProcess:
    """One node and its data directory."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="millstream-node-"))
        self.bootstrap_servers = ""
        self.http_address = ""
        self.started_at = 0.0
        """`time.monotonic()` just before the process was started."""
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start on the data that is there; back when the ready line was read. Raises MillstreamStartError."""
        port = self.bootstrap_servers.rpartition(":")[2] or "0"
        command = [_command(), "up", "--data", str(self.directory / "data")]
        command += ["--kafka-port", port, "--amqp-port", "0", "--http-port", "0"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with (self.directory / "errors").open("wb") as errors:
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        ready = self._ready_line()
        self.bootstrap_servers, self.http_address = ready.group(1), ready.group(3)

    def stop(self) -> int:
        """End it as an operator would; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _ready_line(self) -> re.Match[str]:
        assert self._process is not None
        output = self._process.stdout
        assert output is not None
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            # Reads to the end, so that a node that prints more never blocks on a full pipe.
            for line in output:
                lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        deadline = time.monotonic() + START_TIMEOUT_S
        with contextlib.suppress(queue.Empty):
            while line := lines.get(timeout=max(deadline - time.monotonic(), 0.001)):
                if ready := _READY.match(line):
                    return ready
        self.kill()
        text = (self.directory / "errors").read_text(errors="replace")
        raise MillstreamStartError("millstream did not become ready:\n" + "\n".join(text.splitlines()[-15:]))


@contextlib.contextmanager
def running_millstream(settings: Mapping[str, str] | None = None) -> Iterator[MillstreamProcess]:
    """A fresh node in its own process. Raises MillstreamStartError."""
    node = MillstreamProcess(settings or {})
    try:
        node.start()
        yield node
    finally:
        node.kill()
        shutil.rmtree(node.directory, ignore_errors=True)


def _command() -> str:
    beside_python = Path(sys.executable).parent / "millstream"
    found = str(beside_python) if beside_python.exists() else shutil.which("millstream")
    if found is None:
        raise MillstreamStartError(f"no `millstream` command beside {os.path.basename(sys.executable)}")
    return found
