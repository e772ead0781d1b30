"""The jars of Apache Kafka 4.3.0, fetched once.

Why: the peer we compare with, and Kafka's own command line tools, are Maven artifacts.
Invariants: a directory that has its `complete` marker holds every jar; one without it is fetched again.
Nothing is fetched when MILLSTREAM_KAFKA_LIBS names a directory of jars.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.3.0"
_FETCH_TIMEOUT_S = 900

_POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>millstream</groupId>
  <artifactId>peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class KafkaUnavailable(Exception):
    """Java or the jars can't be had here; the message says what is missing and how to get it."""


def java() -> str:
    """The path of the `java` command; raises KafkaUnavailable."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java"))) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise KafkaUnavailable("no `java` command: install a Java 17 runtime, or set JAVA_HOME")
    return found


def kafka_libs() -> Path:
    """The directory of jars, fetched with Maven if it is not there yet; raises KafkaUnavailable."""
    given = os.environ.get("MILLSTREAM_KAFKA_LIBS")
    if given:
        if not any(Path(given).glob("kafka-clients-*.jar")):
            raise KafkaUnavailable(f"MILLSTREAM_KAFKA_LIBS={given} holds no kafka-clients jar")
        return Path(given)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = cache / "millstream" / f"kafka-{KAFKA_VERSION}"
    if not (target / "complete").exists():
        _fetch(target)
    return target


def _fetch(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(
            "no `mvn` command to fetch Apache Kafka with: install Maven, or set MILLSTREAM_KAFKA_LIBS "
            f"to a directory with the jars of Kafka {KAFKA_VERSION}"
        )
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as project:
        Path(project, "pom.xml").write_text(_POM)
        command = [maven, "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
        try:
            done = subprocess.run(
                command, cwd=project, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise KafkaUnavailable(f"Maven did not fetch Kafka within {_FETCH_TIMEOUT_S} s") from None
    if done.returncode != 0:
        last_lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise KafkaUnavailable(f"Maven could not fetch Apache Kafka {KAFKA_VERSION}:\n{last_lines}")
    (target / "complete").touch()
