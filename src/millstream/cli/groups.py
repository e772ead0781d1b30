"""`millstream groups`: who reads, how far behind, and moving them.

Why: lag in records and in time, for each partition and member, in one look.
Invariants: deleting and resetting show what they do, take --dry-run, and ask unless --yes.
"""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli import human
from millstream.cli.confirm import confirm_or_stop
from millstream.cli.group_reset import reset
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    DryRun,
    Group,
    Groups,
    KafkaOptions,
    Output,
    Yes,
    admin,
)
from millstream.cli.output import Column, emit_line, emit_rows, emit_table, emit_value, note

if TYPE_CHECKING:
    from millstream.client.groups import GroupDescription, GroupLag
    from millstream.client.session import AdminSession
    from millstream.model.topics import TopicPartition

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)
app.command()(reset)


@app.callback()
def groups() -> None:
    """See consumer groups and their lag; reset and delete them.

    \b
    millstream groups list --lag
    millstream groups describe billing
    millstream groups reset billing --topic orders --by-duration 2h --dry-run
    """


_LIST_COLUMNS = (
    Column("name", "GROUP"),
    Column("state", "STATE"),
    Column("protocol", "PROTOCOL"),
)
_LAG_COLUMNS = (*_LIST_COLUMNS, Column("lag", "LAG", human.count, right=True))


@app.command("list")
def list_(
    lag: Annotated[
        bool, typer.Option("--lag", "-l", help="The lag of each group: a few requests more for each.")
    ] = False,
    names: Annotated[bool, typer.Option("--names", "-q", help="Names only, one a line.")] = False,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Consumer groups and their state.

    \b
    millstream groups list
    millstream groups list --lag -o json
    """
    with admin(bootstrap, options) as session:
        from millstream.client.groups import group_lag, list_groups

        found = list_groups(session)
        if names:
            from millstream.cli.topics import emit_names

            emit_names([group.name for group in found], output)
            return
        rows: list[dict[str, Any]] = [
            {"name": group.name, "state": group.state, "protocol": group.protocol} for group in found
        ]
        if lag:
            for row in rows:
                row["lag"] = sum(part.lag or 0 for part in group_lag(session, row["name"]))
    emit_rows(rows, _LAG_COLUMNS if lag else _LIST_COLUMNS, output)
    if not rows and output == "table":
        note("no groups: one appears when a consumer with a group.id first joins or commits")


_DESCRIBE_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", right=True),
    Column("committed", "COMMITTED", right=True),
    Column("end", "END", right=True),
    Column("lag", "LAG", human.count, right=True),
    Column("behind_s", "BEHIND", human.duration, right=True),
    Column("member", "MEMBER"),
)
_MEMBER_COLUMNS = (
    Column("member", "MEMBER"),
    Column("client", "CLIENT"),
    Column("host", "HOST"),
    Column("partitions", "PARTITIONS", lambda names: str(len(names)), right=True),
)


@app.command()
def describe(
    name: Group,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Members, offsets and lag of a group, in records and in time.

    \b
    millstream groups describe billing
    millstream groups describe billing -o json | jq .lag

    BEHIND is the age of the first record that the group has not committed.
    """
    with admin(bootstrap, options) as session:
        from millstream.client.groups import describe_group, group_lag

        group = describe_group(session, name)
        assigned = {p: member.member_id for member in group.members for p in member.partitions}
        lags = group_lag(session, name, assigned=assigned)
        behind = _behind_s(session, lags)
    described = _as_value(group, lags, assigned, behind)
    if output != "table":
        emit_value(described, output)
        return
    emit_line(
        f"Group {name}: {group.state}, {group.protocol} protocol, {human.count(described['lag'])} behind"
    )
    if group.members:
        emit_line()
        emit_table(described["members"], _MEMBER_COLUMNS)
    if lags:
        emit_line()
        emit_table(described["partitions"], _DESCRIBE_COLUMNS)
    lost = sum(part.lost for part in lags)
    if lost:
        note(f"{human.count(lost)} records were removed by retention before {name} read them")


def _behind_s(session: "AdminSession", lags: "list[GroupLag]") -> "dict[TopicPartition, float]":
    from millstream.client.read import first_records

    now_ms = time.time_ns() // 1_000_000
    waiting: dict[str, dict[TopicPartition, int]] = {}
    for part in lags:
        if part.lag and part.committed is not None:
            waiting.setdefault(part.partition.topic, {})[part.partition] = max(
                part.committed, part.span.start
            )
    found: dict[TopicPartition, float] = {}
    for offsets in waiting.values():
        for p, record in first_records(session.connection, offsets).items():
            if record.timestamp_ms is not None:
                found[p] = max(now_ms - record.timestamp_ms, 0) / 1_000
    return found


def _as_value(
    group: "GroupDescription",
    lags: "list[GroupLag]",
    assigned: "dict[TopicPartition, str]",
    behind: "dict[TopicPartition, float]",
) -> dict[str, Any]:
    return {
        "name": group.name,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": sum(part.lag or 0 for part in lags),
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "instance": member.instance_id,
                "partitions": [str(p) for p in member.partitions],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": part.partition.topic,
                "partition": part.partition.partition,
                "committed": part.committed,
                "start": part.span.start,
                "end": part.span.end,
                "lag": part.lag,
                "lost": part.lost,
                "behind_s": behind.get(part.partition, 0.0 if part.lag == 0 else None),
                "member": assigned.get(part.partition),
            }
            for part in lags
        ],
    }


@app.command()
def delete(
    names: Groups,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Delete groups with their committed offsets; their consumers must be stopped.

    \b
    millstream groups delete billing
    millstream groups delete test-1 test-2 --yes
    """
    with admin(bootstrap, options) as session:
        from millstream.client.groups import delete_groups, describe_group

        for name in names:
            describe_group(session, name)
        if dry_run:
            note(f"would delete {', '.join(names)}")
            return
        confirm_or_stop(f"Delete {', '.join(names)} with all committed offsets?", yes=yes)
        delete_groups(session, names)
    note(f"deleted {', '.join(names)}")
