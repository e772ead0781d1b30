"""The table, for a terminal and for docs/benchmarks.md, with the machine it was measured on.

Invariants: every row shows both medians, their ratio and its bar; the spread of the rounds stands beside them in
the document, so that a reader sees how much a figure can be trusted.
"""

import datetime
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import libversion
from tests.support.kafka_jars import KAFKA_VERSION, java

from benchmarks.measures import Results, Row, figure

_HEADINGS = ("", "Apache Kafka", "Millstream", "ratio", "bar", "")


def table(rows: Sequence[Row], results: Results, candidate: str) -> str:
    """Aligned columns for a terminal."""
    headings = list(_HEADINGS)
    headings[2] = "Millstream" if candidate == "millstream" else "Kafka again"
    lines = [headings, *(_cells(row, results) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 4, 5) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(
    rows: Sequence[Row], results: Results, machine: Sequence[tuple[str, str]], *, rounds: int
) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; run it to get the figures of your own machine. Both brokers run side by side on",
        "one machine and take turns, round by round, with the same librdkafka client and the same topics of four",
        f"partitions. Each figure is the median of {rounds} rounds; the range of the rounds is in brackets.",
        "",
        "| | Apache Kafka | Millstream | ratio | bar | |",
        "| --- | ---: | ---: | ---: | --- | --- |",
    ]
    lines += [f"| {' | '.join(_cells(row, results, spread=True))} |" for row in rows]
    lines += ["", "## The machine", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in machine]
    return "\n".join([*lines, ""])


def described_machine() -> list[tuple[str, str]]:
    """What a reader needs to know to compare with another machine."""
    return [
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("file system", _file_system(tempfile.gettempdir())),
        ("load before the run", " ".join(f"{load:.2f}" for load in os.getloadavg())),
        ("Apache Kafka", f"{KAFKA_VERSION}, one KRaft node, {_java_version()}, -Xmx1G"),
        ("Millstream", f"Python {platform.python_version()}"),
        ("client", f"librdkafka {libversion()[0]}"),
        ("date", datetime.date.today().isoformat()),
    ]


def _cells(row: Row, results: Results, *, spread: bool = False) -> list[str]:
    medians = results.medians(row.key)
    assert medians is not None
    kafka, candidate = medians
    ratio = candidate / kafka if kafka else float("inf")
    verdict = {True: "pass", False: "FAIL", None: ""}[row.passes(candidate, ratio)]
    sides = [f"{figure(kafka)} {row.unit}", f"{figure(candidate)} {row.unit}"]
    if spread:
        rounds = (results.kafka[row.key], results.candidate[row.key])
        sides = [
            f"{side} ({figure(min(each))} to {figure(max(each))})"
            for side, each in zip(sides, rounds, strict=True)
        ]
    return [row.title, *sides, f"{ratio:.2f}x", row.bar_text, verdict]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _file_system(directory: str) -> str:
    """The type of the file system that holds a directory."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _device, mount, found, *_ = line.split()
        if os.path.commonpath([os.path.realpath(directory), mount]) == mount and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def _java_version() -> str:
    told = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False).stderr
    return told.partition("\n")[0].replace('"', "")
