"""`millstream topics delete-records`: cut off the beginning of a topic.

Why: to be rid of records before retention is; for good, so with a preview.
Invariants: nothing is deleted before the table was shown and agreed to, or --yes was given.
"""

import time
from typing import Annotated

import typer

from millstream.cli import human
from millstream.cli.confirm import confirm_or_stop
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    DryRun,
    KafkaOptions,
    Output,
    Partitions,
    Topic,
    Yes,
    admin,
)
from millstream.cli.output import Column, emit_rows, note
from millstream.model.errors import BadRequest

_COLUMNS = (
    Column("partition", "PARTITION", right=True),
    Column("start", "START", right=True),
    Column("new_start", "NEW START", right=True),
    Column("end", "END", right=True),
    Column("deleted", "DELETED", human.count, right=True),
)


def delete_records(
    topic: Topic,
    before: Annotated[
        str,
        typer.Option(
            "--before", metavar="PLACE", help="An offset, a time, how long ago (7d), or `end` for all."
        ),
    ],
    partition: Partitions = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Delete the records before a place, for good.

    \b
    millstream topics delete-records orders --before 7d --dry-run
    millstream topics delete-records orders --before 1000 -p 0
    millstream topics delete-records orders --before end --yes
    """
    with admin(bootstrap, options) as session:
        from millstream.client.offsets import delete_records_before, offset_spans, partitions_of
        from millstream.client.positions import LastRecords, parse_position, resolve

        place = parse_position(before, now_ms=time.time_ns() // 1_000_000)
        if isinstance(place, LastRecords):
            raise BadRequest("--before takes an offset, a time, how long ago, or `end`")
        spans = offset_spans(session, partitions_of(session, topic, partition or ()))
        targets = resolve(session, spans, place)
        rows = [
            {
                "partition": p.partition,
                "start": span.start,
                "new_start": targets[p],
                "end": span.end,
                "deleted": targets[p] - span.start,
            }
            for p, span in spans.items()
        ]
        emit_rows(rows, _COLUMNS, output)
        total = sum(targets[p] - span.start for p, span in spans.items())
        if dry_run or total == 0:
            note(f"would delete {human.count(total)} records of {topic}")
            return
        confirm_or_stop(f"Delete {human.count(total)} records of {topic}?", yes=yes)
        delete_records_before(
            session, {p: offset for p, offset in targets.items() if offset > spans[p].start}
        )
    note(f"deleted {human.count(total)} records of {topic}")
