"""`millstream groups reset`: move a group, after showing what that means.

Why: the wrong reset repeats or loses work; the preview says how many records, in each partition.
Invariants: exactly one destination is named; the table is shown before anything changes; the group must have
no active members, which the broker checks too.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli import human
from millstream.cli.completion import complete_topics
from millstream.cli.confirm import confirm_or_stop
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    DryRun,
    Group,
    KafkaOptions,
    Output,
    Yes,
    admin,
)
from millstream.cli.output import Column, emit_rows, note
from millstream.model.errors import BadRequest

if TYPE_CHECKING:
    from millstream.client.reset import PartitionMove, Target
    from millstream.client.session import AdminSession

_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", right=True),
    Column("current", "CURRENT", right=True),
    Column("new", "NEW", right=True),
    Column("end", "END", right=True),
    Column("read_again", "READ AGAIN", human.count, right=True),
    Column("skipped", "SKIPPED", human.count, right=True),
)


def reset(
    name: Group,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1]",
            autocompletion=complete_topics,
            help="Only this topic, or these partitions of it. Repeatable. Default: all it has committed.",
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: skip everything.")] = False,
    to_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the first record at or after this time.")
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="To what came in so long ago: 15m, 2h, 1d12h, PT2H."),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="So many records on, or back when negative.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Move a group to another place; its consumers must be stopped.

    \b
    millstream groups reset billing --to-earliest --dry-run
    millstream groups reset billing -t orders --by-duration 2h
    millstream groups reset billing -t orders:0,2 --to-offset 1000 --yes
    millstream groups reset billing --to-datetime 2026-11-15T09:30

    First comes a table of what will be read again and what will be skipped, then the question.
    """
    now_ms = time.time_ns() // 1_000_000
    target = _target(to_earliest, to_latest, to_offset, to_datetime, by_duration, shift_by, now_ms)
    topics = dict(_topic_partitions(text) for text in topic or ())
    with admin(bootstrap, options) as session:
        from millstream.client.reset import apply_reset, plan_reset

        _require_idle(session, name, creating=bool(topics))
        moves = plan_reset(session, name, target, topics=topics or None)
        _emit_preview(moves, output)
        changed = [move for move in moves if move.changes]
        again, skipped = sum(m.again for m in moves), sum(m.skipped for m in moves)
        summary = f"{human.count(again)} records read again, {human.count(skipped)} skipped"
        if not changed:
            note(f"{name} is already there")
            return
        if dry_run:
            note(f"would move {name} in {len(changed)} partitions: {summary}")
            return
        confirm_or_stop(f"Move {name} in {len(changed)} partitions ({summary})?", yes=yes)
        apply_reset(session, name, moves)
    note(f"moved {name} in {len(changed)} partitions: {summary}")


def _emit_preview(moves: "list[PartitionMove]", output: Output) -> None:
    rows = [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "current": move.current,
            "new": move.target,
            "start": move.span.start,
            "end": move.span.end,
            "read_again": move.again,
            "skipped": move.skipped,
        }
        for move in moves
    ]
    emit_rows(rows, _COLUMNS, output)


def _require_idle(session: "AdminSession", name: str, *, creating: bool) -> None:
    """A group that is active, or that isn't there and is given no topic, is told so before the preview."""
    from millstream.client.errors import GroupInUse, UnknownGroup
    from millstream.client.groups import describe_group

    try:
        group = describe_group(session, name)
    except UnknownGroup:
        if not creating:
            raise
        note(f"group {name!r} does not exist yet: its offsets will be created")
        return
    if group.members:
        raise GroupInUse(name)


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    now_ms: int,
) -> "Target":
    from millstream.client.positions import (
        AtOffset,
        AtTime,
        Beginning,
        End,
        parse_duration_ms,
        parse_time_ms,
    )
    from millstream.client.reset import ShiftBy

    named: list[Target] = []
    if to_earliest:
        named.append(Beginning())
    if to_latest:
        named.append(End())
    if to_offset is not None:
        named.append(AtOffset(to_offset))
    if to_datetime is not None:
        named.append(AtTime(parse_time_ms(to_datetime)))
    if by_duration is not None:
        named.append(AtTime(now_ms - parse_duration_ms(by_duration)))
    if shift_by is not None:
        named.append(ShiftBy(shift_by))
    if len(named) != 1:
        raise BadRequest(
            "say where to, once: --to-earliest, --to-latest, --to-offset, --to-datetime, --by-duration "
            "or --shift-by"
        )
    return named[0]


def _topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    name, separator, numbers = text.partition(":")
    if not separator:
        return name, ()
    try:
        return name, tuple(int(number) for number in numbers.split(","))
    except ValueError:
        raise BadRequest(f"--topic {text!r}: write partitions as TOPIC:0,1,2") from None
