"""What the HTTP door asks of the node.

Why: the door runs on a thread of its own and must not touch what the event loop of the node owns. So it sees
the node through this protocol, and gets plain numbers, copied at one moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetrics:
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    """The offset of the next record."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionMetrics:
    """How far a group has come in one partition."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    lag: int
    """Records between the committed offset and the end; -1 if the partition is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    group: str
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMetrics:
    api: str
    """The name of the request: `Produce`, `Fetch`, …"""
    count: int
    errors: int
    seconds: float
    """Time spent on them, all together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Counters count since the start of the process."""

    partitions: Sequence[PartitionMetrics] = ()
    group_partitions: Sequence[GroupPartitionMetrics] = ()
    groups: Sequence[GroupMetrics] = ()
    requests: Sequence[RequestMetrics] = ()
    connections: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    syncs: int = 0
    sync_seconds: float = 0.0
    uptime_seconds: float = 0.0
    memory_bytes: int = 0


class StatusSource(Protocol):
    """Called from the threads of the HTTP door, at any time between its start and its stop."""

    def live(self) -> bool:
        """Whether the process works at all. False means: restart it."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Whether it serves, and if not, why not."""
        ...

    def metrics(self) -> MetricsSnapshot:
        """The numbers of this moment. May take a while; may raise if the node does not answer."""
        ...
