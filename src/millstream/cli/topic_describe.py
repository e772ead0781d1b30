"""`millstream topics describe`: a topic, and what its present rate means for the disk and its readers.

Why: offsets and settings alone don't tell whether a topic is healthy; the outlook does.
Invariants: everything shown in the table is in `-o json` as a number with its unit in the name.
"""

import time
from typing import TYPE_CHECKING, Any

from millstream.cli import human
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    KafkaOptions,
    Output,
    Topic,
    admin,
)
from millstream.cli.output import Column, emit_line, emit_table, emit_value, note

if TYPE_CHECKING:
    from millstream.client.outlook import GroupRisk, Outlook
    from millstream.client.topic_outlook import TopicOutlook
    from millstream.client.topics import ConfigValue, TopicDescription

_PARTITION_COLUMNS = (
    Column("partition", "PARTITION", right=True),
    Column("leader", "LEADER", right=True),
    Column("replicas", "REPLICAS", lambda ids: ",".join(map(str, ids))),
    Column("start", "START", right=True),
    Column("end", "END", right=True),
    Column("records", "RECORDS", human.count, right=True),
    Column("size_bytes", "SIZE", human.size, right=True),
    Column("records_per_s", "RATE", lambda rate: human.rate(rate, "records"), right=True),
)


def describe(
    topic: Topic,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Partitions, settings and outlook of a topic.

    \b
    millstream topics describe orders
    millstream topics describe orders -o json | jq .outlook

    The outlook is arithmetic on the rate of the last minutes: how long retention keeps a record, when the disk
    is full, and how long the slowest group has before it loses data. Times are lower bounds: whole segments are
    dropped, so records live longer rather than shorter.
    """
    with admin(bootstrap, options) as session:
        from millstream.client.topic_outlook import topic_outlook
        from millstream.client.topics import describe_topic, topic_configs

        found = describe_topic(session, topic)
        configs = topic_configs(session, topic)
        outlook = topic_outlook(
            session,
            found,
            {config.name: config.value for config in configs},
            now_ms=time.time_ns() // 1_000_000,
        )
    described = _as_value(found, configs, outlook)
    if output == "table":
        _show(described, outlook)
    else:
        emit_value(described, output)
    if outlook.groups_left_out:
        note(f"{outlook.groups_left_out} more groups were not looked at")


def _as_value(
    topic: "TopicDescription", configs: "list[ConfigValue]", found: "TopicOutlook"
) -> dict[str, Any]:
    outlook = found.outlook
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": placement.partition,
                "leader": placement.leader,
                "replicas": list(placement.replicas),
                "in_sync": list(placement.in_sync),
                "start": facts.span.start,
                "end": facts.span.end,
                "records": facts.span.count,
                "size_bytes": facts.size_bytes,
                "records_per_s": facts.records_per_s,
            }
            for placement, facts in zip(topic.partitions, found.partitions, strict=True)
        ],
        "config": {config.name: config.value for config in configs if not config.is_default},
        "outlook": {
            "rate_over_s": found.elapsed_ms / 1_000,
            "records_per_s": outlook.records_per_s,
            "bytes_per_s": outlook.bytes_per_s,
            "retention_lasts_s": outlook.lasts_s,
            "retention_bound_by": outlook.bound,
            "settles_at_bytes": outlook.settles_at_bytes,
            "disk_free_bytes": None if found.disk is None else found.disk.free_bytes,
            "disk_full_in_s": outlook.disk_full_in_s,
            "groups_behind": [
                {
                    "group": risk.group,
                    "partition": risk.partition,
                    "lag": risk.lag,
                    "lost": risk.lost,
                    "time_left_s": risk.time_left_s,
                }
                for risk in outlook.risks
            ],
        },
    }


def _show(described: dict[str, Any], found: "TopicOutlook") -> None:
    emit_line(f"Topic {described['name']} (id {described['topic_id']})")
    emit_line()
    emit_table(described["partitions"], _PARTITION_COLUMNS)
    emit_line()
    if described["config"]:
        rows = [{"name": name, "value": value} for name, value in described["config"].items()]
        emit_table(rows, (Column("name", "SETTING"), Column("value", "VALUE")))
    else:
        emit_line("Settings: all at their defaults")
    emit_line()
    for sentence in sentences(found.outlook, elapsed_s=found.elapsed_ms / 1_000):
        emit_line(sentence)


def sentences(outlook: "Outlook", *, elapsed_s: float) -> list[str]:
    """The outlook in words."""
    lines = [_rate_sentence(outlook, elapsed_s), _retention_sentence(outlook)]
    if outlook.disk_full_in_s is not None:
        lines.append(f"Disk: full in {human.duration(outlook.disk_full_in_s)} at this rate.")
    elif outlook.disk_known and outlook.settles_at_bytes is not None:
        lines.append(f"Disk: has room; the topic settles at about {human.size(outlook.settles_at_bytes)}.")
    elif outlook.disk_known:
        lines.append("Disk: has room as long as nothing is written.")
    else:
        lines.append("Disk: sizes can't be asked of this broker.")
    lines.append(_group_sentence(outlook.risks))
    return lines


def _rate_sentence(outlook: "Outlook", elapsed_s: float) -> str:
    if outlook.records_per_s == 0:
        return f"Rate: nothing was written in the last {human.duration(elapsed_s)}."
    in_bytes = "" if outlook.bytes_per_s is None else f", {human.byte_rate(outlook.bytes_per_s)}"
    return (
        f"Rate: {human.rate(outlook.records_per_s, 'records')}{in_bytes} "
        f"over the last {human.duration(elapsed_s)}."
    )


def _retention_sentence(outlook: "Outlook") -> str:
    if outlook.bound == "nothing":
        return "Retention: records are kept for ever."
    reason = "retention.ms" if outlook.bound == "age" else "retention.bytes at this rate"
    return f"Retention: a record stays for at least {human.duration(outlook.lasts_s)} ({reason})."


def _group_sentence(risks: "tuple[GroupRisk, ...]") -> str:
    if not risks:
        return "Groups: none is behind."
    worst = risks[0]
    where = (
        f"{worst.group} is slowest: {human.count(worst.lag)} records behind in partition {worst.partition}"
    )
    if worst.lost:
        return f"Groups: {where}, {human.count(worst.lost)} of them already lost to retention."
    if worst.time_left_s is None:
        return f"Groups: {where}; nothing will be lost, records are kept for ever."
    return f"Groups: {where}; it loses data in {human.duration(worst.time_left_s)} if it reads no further."
