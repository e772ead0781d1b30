"""Apache Kafka 4.3.0 as one KRaft node, started and stopped by a test or a benchmark.

Why: a case that fails on Kafka is a wrong case, and a benchmark without its peer in the same run says little.
Invariants: the node listens on loopback only, on ports of its own, in a directory that goes with it; leaving
the context ends the process, whatever happened inside.
"""

import base64
import contextlib
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.kafka_jars import java, kafka_libs
from tests.support.ports import free_ports
from tests.support.raw import ConnectionClosed, RawConnection

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
_START_ATTEMPTS = 3
TEST_JVM_OPTIONS = ("-Xmx512M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class KafkaStartError(Exception):
    """The node did not come up; the message ends with its last lines of output."""


class KafkaPeer:
    """One node and its directory. It answers at `bootstrap_servers` while it runs, after a restart too."""

    def __init__(self, properties: Mapping[str, str], jvm_options: Sequence[str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="millstream-kafka-"))
        self.bootstrap_servers = ""
        self.started_after_s = 0.0
        """From process start to the first metadata answer, at the last start."""
        self._properties = properties
        self._jvm_options = jvm_options
        self._libs = kafka_libs()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start_fresh(self) -> None:
        """Format and start; tries other ports when somebody took these. Raises KafkaStartError."""
        for attempt in range(1, _START_ATTEMPTS + 1):
            port, controller_port = free_ports(2)
            self.bootstrap_servers = f"127.0.0.1:{port}"
            configuration = _write_properties(self.directory, port, controller_port, self._properties)
            _format_storage(self._libs, configuration)
            try:
                self.start()
                return
            except KafkaStartError:
                self.kill()
                if attempt == _START_ATTEMPTS:
                    raise
                shutil.rmtree(self.directory / "data", ignore_errors=True)

    def start(self) -> None:
        """Start on the data that is there; back when it answers. Raises KafkaStartError."""
        command = [java(), *self._jvm_options, "-cp", f"{self._libs}/*", "kafka.Kafka"]
        with (self.directory / "output").open("wb") as output:
            began = time.monotonic()
            self._process = subprocess.Popen(
                [*command, str(self.directory / "server.properties")], stdout=output, stderr=output
            )
        try:
            self.started_after_s = wait_until_it_serves(self.bootstrap_servers, self._process, began=began)
        except KafkaStartError as reason:
            text = (self.directory / "output").read_text(errors="replace")
            last = "\n".join(text.splitlines()[-15:])
            raise KafkaStartError(f"Apache Kafka did not start: {reason}\n{last}") from None

    def stop(self) -> None:
        """End it as an operator would, and wait."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running_kafka(
    properties: Mapping[str, str] | None = None, *, jvm_options: Sequence[str] = TEST_JVM_OPTIONS
) -> Iterator[KafkaPeer]:
    """A fresh node with `properties` over the defaults. Raises KafkaUnavailable or KafkaStartError."""
    peer = KafkaPeer(properties or {}, jvm_options)
    try:
        peer.start_fresh()
        yield peer
    finally:
        # Its directory goes with it, so a clean stop would buy nothing.
        peer.kill()
        shutil.rmtree(peer.directory, ignore_errors=True)


def wait_until_it_serves(address: str, process: "subprocess.Popen[bytes]", *, began: float) -> float:
    """Seconds from `began` to the first Metadata answer that names a broker; raises KafkaStartError."""
    deadline = began + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise KafkaStartError(f"exit code {process.returncode}")
        if answers_metadata(address):
            return time.monotonic() - began
        time.sleep(0.01)
    raise KafkaStartError(f"no answer at {address} within {START_TIMEOUT_S:g} s")


def answers_metadata(address: str) -> bool:
    try:
        with RawConnection(address, timeout_s=5) as connection:
            return bool(connection.call("metadata", 9, topics=[]).brokers)
    except (OSError, ConnectionClosed):
        return False


def _write_properties(directory: Path, port: int, controller_port: int, extra: Mapping[str, str]) -> Path:
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **extra,
    }
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


def _format_storage(libs: Path, configuration: Path) -> None:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    if cluster_id.startswith("-"):
        cluster_id = "A" + cluster_id[1:]  # the tool would take it for an option
    arguments = ["format", "--standalone", "-t", cluster_id, "-c", str(configuration)]
    command = [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{libs}/*"]
    done = subprocess.run(
        [*command, "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise KafkaStartError(f"formatting failed: {(done.stdout + done.stderr).strip()}")
