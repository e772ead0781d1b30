"""What a benchmark is made of: rows with a bar, sizes, and how a process's cost is read.

Why: every question gives its figures in one form, so that one table holds them all.
Invariants: a ratio is candidate divided by Kafka, of the medians; a bar is a bound on that ratio, and `limit` one
on the candidate's own figure. CPU and memory are those of a process with all its descendants.
"""

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers import Peer

Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. `bar` None means the row is shown for information."""

    key: str
    title: str
    unit: str
    more_is_better: bool
    bar: float | None = None
    limit: float | None = None

    def passes(self, candidate: float, ratio: float) -> bool | None:
        if self.bar is None:
            return None
        within = ratio >= self.bar if self.more_is_better else ratio <= self.bar
        return within and (self.limit is None or candidate <= self.limit)

    @property
    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        sign = "≥" if self.more_is_better else "≤"
        own = "" if self.limit is None else f", {sign} {figure(self.limit)} {self.unit}"
        return f"{sign} {self.bar:.3g}x{own}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much work a round is. `quick` shows that everything runs; its figures mean nothing."""

    records_100b: int = 3_000_000
    records_1kb: int = 600_000
    read_passes: int = 2
    sync_count: int = 4_000
    paced_s: float = 10.0
    request_count: int = 160_000
    records_100b_fsync: int = 1_500_000
    request_count_fsync: int = 24_000
    sync_count_fsync: int = 1_500
    warm_up_records: int = 1_000_000
    warm_up_requests: int = 40_000
    warm_up_sync: int = 2_000


QUICK = Size(
    records_100b=20_000,
    records_1kb=5_000,
    read_passes=1,
    sync_count=200,
    paced_s=1.0,
    request_count=2_000,
    records_100b_fsync=10_000,
    request_count_fsync=800,
    sync_count_fsync=100,
    warm_up_records=1_000,
    warm_up_requests=400,
    warm_up_sync=20,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A benchmark: what it measures of one peer in one round."""

    name: str
    rows: Sequence[Row]
    measure: Callable[[Peer, Size], Figures]
    prepare: Callable[[Peer, Size], None] = lambda peer, size: None
    finish: Callable[[Peer], None] = lambda peer: None


@dataclass(slots=True)
class Results:
    """Every figure of every round, by row and by peer."""

    kafka: dict[str, list[float]] = field(default_factory=dict)
    candidate: dict[str, list[float]] = field(default_factory=dict)

    def add(self, *, is_candidate: bool, figures: Figures) -> None:
        side = self.candidate if is_candidate else self.kafka
        for key, value in figures.items():
            side.setdefault(key, []).append(value)

    def medians(self, key: str) -> tuple[float, float] | None:
        """(Kafka, candidate), or None for a row that was not measured."""
        if key not in self.kafka or key not in self.candidate:
            return None
        return statistics.median(self.kafka[key]), statistics.median(self.candidate[key])


def percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figure(value: float) -> str:
    """A number with the three digits that matter."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants, the ended ones that were waited for too."""
    total = 0
    for each in _family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(value) for value in fields[11:15])
    return total / _TICKS_PER_S


def memory_bytes(pid: int, kind: str = "VmRSS") -> int:
    """Resident memory of a process and its descendants; `RssAnon` leaves out mapped files."""
    total = 0
    for each in _family(pid):
        for line in Path(f"/proc/{each}/status").read_text().splitlines():
            if line.startswith(kind + ":"):
                total += int(line.split()[1]) * 1024
    return total


def _family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for thread in Path(f"/proc/{each}/task").iterdir():
            children = (thread / "children").read_text().split()
            found.extend(int(child) for child in children)
    return found
