"""Every metric of /metrics."""

from docs.reference_pages.markdown import code, page, table

from millstream.console.prometheus import SnapshotCollector
from millstream.console.status import (
    GroupMetrics,
    GroupPartitionMetrics,
    MetricsSnapshot,
    PartitionMetrics,
    RequestMetrics,
)

_INTRODUCTION = """\
`GET /metrics` on the HTTP port, in the text format of Prometheus (or OpenMetrics, if the client asks for it). Offsets
and lag carry the names of Kafka's exporters, so dashboards made for those work; names of our own begin with
`millstream_`. Counters count since the start of the process. Which of them to watch is in
[Operations](../guides/operations.md#metrics)."""

_ONE_OF_EACH = MetricsSnapshot(
    partitions=[PartitionMetrics(topic="t", partition=0, start_offset=0, end_offset=1, size_bytes=1)],
    group_partitions=[GroupPartitionMetrics(group="g", topic="t", partition=0, committed_offset=0, lag=1)],
    groups=[GroupMetrics(group="g", members=1)],
    requests=[RequestMetrics(api="Fetch", count=1, errors=0, seconds=0.1)],
)


def metrics_page() -> str:
    rows = []
    for family in SnapshotCollector(_ONE_OF_EACH).collect():
        sample = family.samples[0]
        labels = ", ".join(code(label) for label in sample.labels)
        rows.append((code(sample.name), family.type, labels, family.documentation))
    return page("Metrics", _INTRODUCTION, table(("name", "type", "labels", "meaning"), rows))
