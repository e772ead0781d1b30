"""Kafka's own command line tools, one call each.

Why: they are the clients that operators use, and the strictest readers of a broker's answers.
Invariants: a call ends within its timeout or raises; the exit code is in the result, never hidden.
A start of Java costs a second or two: tests share what one call shows.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.kafka_jars import java, kafka_libs

TIMEOUT_S = 120.0

_CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "configs": "kafka.admin.ConfigCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


class JavaTools:
    """The tools by the names of their scripts (`topics`, `console-producer`, …), for one broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._java = java()
        self._libs = kafka_libs()

    def run(
        self, tool: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S, expect: int = 0
    ) -> ToolResult:
        """Run one tool to its end. Raises AssertionError unless it exits with `expect`."""
        done = subprocess.run(
            self.command(tool, arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=_environment(),
        )
        result = ToolResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
        assert result.exit_code == expect, f"{tool} {' '.join(arguments)} → {result}"
        return result

    def start(self, tool: str, *arguments: str, output: Path) -> "subprocess.Popen[bytes]":
        """Start a tool that runs until it is stopped; its stdout goes to `output`."""
        with output.open("wb") as stdout:
            return subprocess.Popen(
                self.command(tool, arguments), stdout=stdout, stderr=subprocess.DEVNULL, env=_environment()
            )

    def command(self, tool: str, arguments: Sequence[str]) -> list[str]:
        # Short lives: the quick compiler and the simplest collector start soonest.
        options = ["-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        java_command = [self._java, *options, "-cp", f"{self._libs}/*", _CLASSES[tool]]
        return [*java_command, "--bootstrap-server", self.bootstrap_servers, *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}
