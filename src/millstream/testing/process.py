"""A node in a process of its own, to be killed.

    with node_process(tmp_path / "data") as node:
        ...
        node.kill()
        node.start()          # same data, same ports

Why: a node inside the test's process (`running_node`) can be stopped, but not crash; whoever wants to know what
their program does when the broker dies in the middle needs one that can.
Invariants: the ports of the first start are kept, so clients find the node again; what the node says on stderr is
kept over all starts; leaving the context ends the process and all it started, whatever happened inside.
"""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 120.0
END_SECONDS_MAX = 10.0
_READY = re.compile(r"millstream ready kafka=(\S+) amqp=(\S+) http=(\S+)")


class NodeDidNotStart(Exception):
    """The process ended, or said nothing for too long. `said` is what it wrote on stderr."""

    def __init__(self, exit_code: int | None, said: str) -> None:
        super().__init__(f"the node did not become ready (exit code {exit_code}): {said[-2000:]}")
        self.exit_code = exit_code
        self.said = said


class NodeProcess:
    """`wrapper` is a command that runs the node's own, such as `strace …` or `prlimit …`."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, object] | None = None,
        *,
        wrapper: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
        errors: Path | None = None,
    ) -> None:
        """`ports` are those of `kafka`, `amqp` and `http`; a free one is taken where none is named."""
        self.data = data
        self.settings = dict(settings or {})
        self.wrapper = list(wrapper)
        self.environment = dict(environment or {})
        self.errors = errors or data.parent / f"{data.name}.stderr"
        self.starts = 0
        self._ports = {"kafka": 0, "amqp": 0, "http": 0, **(ports or {})}
        self._addresses: dict[str, str] = {}
        self._process: subprocess.Popen[str] | None = None

    @property
    def ports(self) -> Mapping[str, int]:
        return self._ports

    @property
    def bootstrap_servers(self) -> str:
        return self._addresses["kafka"]

    @property
    def http_url(self) -> str:
        return f"http://{self._addresses['http']}"

    @property
    def pid(self) -> int:
        """The process that was started: the wrapper's, if there is one."""
        return self._running.pid

    @property
    def node_pid(self) -> int:
        """The node's own process, also behind a wrapper."""
        if not self.wrapper:
            return self.pid
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0]) if children else self.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """Everything on stderr so far, of all starts."""
        with suppress(FileNotFoundError):
            return self.errors.read_text(errors="replace")
        return ""

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the node was not started")
        return self._process

    def start(self) -> None:
        """Start on the data that is there; returns when the node serves. Raises NodeDidNotStart."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start without waiting."""
        command = [*self.wrapper, sys.executable, "-m", "millstream.cli.main", "up", "--data", str(self.data)]
        for name, port in self._ports.items():
            command += [f"--{name}-port", str(port)]
        for setting, value in self.settings.items():
            command += ["--set", f"{setting}={value}"]
        self.starts += 1
        with self.errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", **self.environment},
                start_new_session=True,
            )

    def wait_until_ready(self, seconds: float = START_SECONDS_MAX) -> None:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        output = self._running.stdout
        assert output is not None

        def read() -> None:
            with output:
                for line in output:
                    lines.put(line)
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        try:
            ready = _READY.match(lines.get(timeout=seconds))
        except queue.Empty:
            ready = None
            self.signal(signal.SIGABRT)  # to say where it was
        if ready is None:
            with suppress(subprocess.TimeoutExpired):
                self.wait(END_SECONDS_MAX)  # it has said its last words; let it have its own exit code
            code = self.kill()
            raise NodeDidNotStart(code, self.said)
        self._addresses = dict(zip(self._ports, ready.groups(), strict=True))
        self._ports = {name: int(address.rpartition(":")[2]) for name, address in self._addresses.items()}

    def stop(self) -> int:
        """SIGTERM, as an operator would; returns the exit code."""
        with suppress(ProcessLookupError):
            os.kill(self.node_pid, signal.SIGTERM)
        return self.wait()

    def wait(self, seconds: float = STOP_SECONDS_MAX) -> int:
        """The exit code, once the process ends by itself; a negative one is the signal that ended it."""
        return self._running.wait(seconds)

    def kill(self) -> int:
        """SIGKILL, for the node and whatever it started; returns the exit code."""
        if self._process is None:
            return 0
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the node alone: what it started lives on, as after a real crash."""
        os.kill(self.node_pid, number)


@contextmanager
def node_process(
    data: Path,
    settings: Mapping[str, object] | None = None,
    *,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[NodeProcess]:
    """A node that serves, in its own process. The data directory stays when the block ends."""
    node = NodeProcess(data, settings, wrapper=wrapper, environment=environment)
    try:
        node.start()
        yield node
    finally:
        node.kill()
