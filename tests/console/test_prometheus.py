"""The names and numbers that Prometheus gets."""

from prometheus_client.parser import text_string_to_metric_families

from millstream.console.prometheus import render
from millstream.console.status import (
    GroupMetrics,
    GroupPartitionMetrics,
    MetricsSnapshot,
    PartitionMetrics,
    RequestMetrics,
)

LABELS = ("consumergroup", "topic", "partition", "api")
SNAPSHOT = MetricsSnapshot(
    partitions=[
        PartitionMetrics(topic="orders", partition=0, start_offset=5, end_offset=105, size_bytes=9000),
        PartitionMetrics(topic="orders", partition=1, start_offset=0, end_offset=50, size_bytes=4000),
    ],
    group_partitions=[
        GroupPartitionMetrics(group="mail", topic="orders", partition=0, committed_offset=100, lag=5),
        GroupPartitionMetrics(group="mail", topic="orders", partition=1, committed_offset=20, lag=30),
    ],
    groups=[GroupMetrics(group="mail", members=2)],
    requests=[RequestMetrics(api="Produce", count=7, errors=1, seconds=0.25)],
    connections=3,
    bytes_in=1000,
    bytes_out=2000,
    syncs=4,
    sync_seconds=0.5,
    uptime_seconds=60.0,
    memory_bytes=40_000_000,
)


def samples(snapshot: MetricsSnapshot) -> dict[tuple[str, tuple[str, ...]], float]:
    body, _ = render(snapshot, "")
    families = text_string_to_metric_families(body.decode())
    return {
        (sample.name, tuple(sample.labels[name] for name in LABELS if name in sample.labels)): sample.value
        for family in families
        for sample in family.samples
    }


def test_offsets_and_lag_carry_the_names_that_dashboards_know() -> None:
    found = samples(SNAPSHOT)

    assert found["kafka_topic_partitions", ("orders",)] == 2
    assert found["kafka_topic_partition_current_offset", ("orders", "0")] == 105
    assert found["kafka_topic_partition_oldest_offset", ("orders", "0")] == 5
    assert found["kafka_consumergroup_current_offset", ("mail", "orders", "1")] == 20
    assert found["kafka_consumergroup_lag", ("mail", "orders", "1")] == 30
    assert found["kafka_consumergroup_lag_sum", ("mail", "orders")] == 35
    assert found["kafka_consumergroup_current_offset_sum", ("mail", "orders")] == 120
    assert found["kafka_consumergroup_members", ("mail",)] == 2


def test_our_own_metrics_say_what_the_node_does() -> None:
    found = samples(SNAPSHOT)

    assert found["millstream_requests_total", ("Produce",)] == 7
    assert found["millstream_request_errors_total", ("Produce",)] == 1
    assert found["millstream_request_seconds_total", ("Produce",)] == 0.25
    assert found["millstream_received_bytes_total", ()] == 1000
    assert found["millstream_sent_bytes_total", ()] == 2000
    assert found["millstream_log_syncs_total", ()] == 4
    assert found["millstream_log_sync_seconds_total", ()] == 0.5
    assert found["millstream_connections", ()] == 3
    assert found["millstream_topic_partition_size_bytes", ("orders", "1")] == 4000
    assert found["millstream_uptime_seconds", ()] == 60
    assert found["millstream_memory_bytes", ()] == 40_000_000


def test_the_lag_of_a_partition_that_is_gone_does_not_lower_the_sum() -> None:
    gone = GroupPartitionMetrics(group="mail", topic="old", partition=0, committed_offset=9, lag=-1)

    found = samples(MetricsSnapshot(group_partitions=[gone]))

    assert found["kafka_consumergroup_lag", ("mail", "old", "0")] == -1
    assert found["kafka_consumergroup_lag_sum", ("mail", "old")] == 0


def test_labels_are_escaped() -> None:
    odd = GroupMetrics(group='a"b\\c\nd', members=1)

    found = samples(MetricsSnapshot(groups=[odd]))

    assert found["kafka_consumergroup_members", ('a"b\\c\nd',)] == 1


def test_openmetrics_is_given_to_who_asks_for_it() -> None:
    body, content_type = render(SNAPSHOT, "application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
