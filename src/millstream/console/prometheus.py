"""The metrics in the text format of Prometheus.

Why: what watches Kafka already should work here, so offsets and lag carry the names that Kafka's exporters
gave them (and like those are gauges); what only we have starts with `millstream_`.
Invariants: a name, once given, stays; labels are `topic`, `partition`, `consumergroup` and `api`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from millstream import __version__
from millstream.console.status import GroupPartitionMetrics, MetricsSnapshot, PartitionMetrics

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]


def render(snapshot: MetricsSnapshot, accept: str) -> tuple[bytes, str]:
    """The metrics, and their content type, in the format that the Accept header asks for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(snapshot))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class SnapshotCollector(Collector):
    """One snapshot as metric families."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield _gauge("kafka_brokers", "Brokers that answer: one node is one node.", (), [((), 1)])
        yield from _topics(self._snapshot.partitions)
        yield from _group_offsets(self._snapshot.group_partitions)
        yield _gauge(
            "kafka_consumergroup_members",
            "Members of a group.",
            ("consumergroup",),
            (((group.group,), group.members) for group in self._snapshot.groups),
        )
        yield from _requests(self._snapshot)
        yield from _process(self._snapshot)


def _topics(partitions: Sequence[PartitionMetrics]) -> Iterator[Metric]:
    counts: dict[str, int] = defaultdict(int)
    for partition in partitions:
        counts[partition.topic] += 1
    labels = ("topic", "partition")
    keyed = [((part.topic, str(part.partition)), part) for part in partitions]
    yield _gauge(
        "kafka_topic_partitions",
        "Partitions of a topic.",
        ("topic",),
        (((topic,), count) for topic, count in counts.items()),
    )
    yield _gauge(
        "kafka_topic_partition_current_offset",
        "The offset that the next record will have.",
        labels,
        ((key, part.end_offset) for key, part in keyed),
    )
    yield _gauge(
        "kafka_topic_partition_oldest_offset",
        "The first offset that can still be read.",
        labels,
        ((key, part.start_offset) for key, part in keyed),
    )
    yield _gauge(
        "millstream_topic_partition_size_bytes",
        "Bytes of a partition on disk.",
        labels,
        ((key, part.size_bytes) for key, part in keyed),
    )


def _group_offsets(positions: Iterable[GroupPartitionMetrics]) -> Iterator[Metric]:
    offset_sums: dict[Labels, int] = defaultdict(int)
    lag_sums: dict[Labels, int] = defaultdict(int)
    keyed = [((part.group, part.topic, str(part.partition)), part) for part in positions]
    for key, part in keyed:
        offset_sums[key[:2]] += part.committed_offset
        lag_sums[key[:2]] += max(part.lag, 0)
    labels = ("consumergroup", "topic", "partition")
    yield _gauge(
        "kafka_consumergroup_current_offset",
        "The offset that a group has committed.",
        labels,
        ((key, part.committed_offset) for key, part in keyed),
    )
    yield _gauge(
        "kafka_consumergroup_lag",
        "Records that a group has not yet committed; -1 if the partition is gone.",
        labels,
        ((key, part.lag) for key, part in keyed),
    )
    yield _gauge(
        "kafka_consumergroup_current_offset_sum",
        "Committed offsets of a group, all partitions of a topic together.",
        labels[:2],
        offset_sums.items(),
    )
    yield _gauge(
        "kafka_consumergroup_lag_sum",
        "Lag of a group, all partitions of a topic together.",
        labels[:2],
        lag_sums.items(),
    )


def _requests(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    requests = [((request.api,), request) for request in snapshot.requests]
    yield _counter(
        "millstream_requests",
        "Requests answered, by kind.",
        ("api",),
        ((key, request.count) for key, request in requests),
    )
    yield _counter(
        "millstream_request_errors",
        "Requests that failed, by kind.",
        ("api",),
        ((key, request.errors) for key, request in requests),
    )
    yield _counter(
        "millstream_request_seconds",
        "Time spent on requests, by kind.",
        ("api",),
        ((key, request.seconds) for key, request in requests),
    )


def _process(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    yield _gauge("millstream_info", "The version that runs.", ("version",), [((__version__,), 1)])
    yield _gauge("millstream_connections", "Open Kafka connections.", (), [((), snapshot.connections)])
    yield _gauge("millstream_uptime_seconds", "Since the start.", (), [((), snapshot.uptime_seconds)])
    yield _gauge("millstream_memory_bytes", "Resident memory.", (), [((), snapshot.memory_bytes)])
    yield _counter("millstream_received_bytes", "Bytes from clients.", (), [((), snapshot.bytes_in)])
    yield _counter("millstream_sent_bytes", "Bytes to clients.", (), [((), snapshot.bytes_out)])
    yield _counter("millstream_log_syncs", "Group commits made durable.", (), [((), snapshot.syncs)])
    yield _counter("millstream_log_sync_seconds", "Time spent in them.", (), [((), snapshot.sync_seconds)])


def _gauge(name: str, documentation: str, labels: Labels, samples: Samples) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for key, value in samples:
        family.add_metric(key, value)
    return family


def _counter(name: str, documentation: str, labels: Labels, samples: Samples) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=labels)
    for key, value in samples:
        family.add_metric(key, value)
    return family
