"""`millstream tail`: read records from anywhere in a topic.

Why: looking at what is there is the first thing anyone does with a topic.
Invariants: stdout gets records and nothing else, byte for byte as sent (unless it is a terminal, which gets no
control characters); the exit code is 0 when everything asked for was written.
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli import encodings
from millstream.cli.encodings import Encoding
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    KafkaOptions,
    Partitions,
    Topic,
    connect,
)
from millstream.cli.output import Format, note
from millstream.client.connection import Connection
from millstream.model.errors import BadRequest

if TYPE_CHECKING:
    from millstream.cli.formats import Writer
    from millstream.client.positions import Position
    from millstream.client.read import ReadPlan

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def tail(
    topic: Topic,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="beginning, end, an offset (42), the last N (-10), a time (2026-11-15T09:30) or how long ago "
            "(2h). Default: the last 10.",
        ),
    ] = None,
    last: Annotated[int | None, typer.Option("-n", metavar="N", min=0, help="The last N: --from -N.")] = None,
    follow: Annotated[
        bool | None,
        typer.Option("--follow/--no-follow", "-f/-F", help="Wait for more. Default with --from end only."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", metavar="N", min=0, help="Stop after so many.")
    ] = None,
    partition: Partitions = None,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="Such as '%o %k %s\\n'; see below.")
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="Write key, TEXT, value.")
    ] = None,
    key_format: Annotated[Encoding, typer.Option("--key-format", "-k", help=encodings.HELP)] = "text",
    value_format: Annotated[Encoding, typer.Option("--value-format", "-v", help=encodings.HELP)] = "text",
    output: Annotated[
        Format | None,
        typer.Option("--output", "-o", metavar="json|yaml|table", help="Whole records instead of values."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Read records, without joining a group.

    \b
    millstream tail orders                          the last 10 values
    millstream tail orders -f                       and what comes after
    millstream tail orders --from beginning -o json | jq .value
    millstream tail orders --from 2h --count 100 --format '%p:%o %k %s\\n'
    millstream tail orders --from 1000 -p 0 -v hex
    millstream tail a -o json | millstream produce b --json     copy a topic

    Without -o or --format each value is a line. Format letters: %s value, %k key, %t topic, %p partition,
    %o offset, %T time in ms, %D date, %h headers, %S and %K lengths, %R value length as 4 bytes, %% percent.

    The last N are the latest over all partitions by their time. Other reads come partition by partition as they
    arrive; order within a partition is kept.
    """
    write = _writer(format_, key_delimiter, output, key_format, value_format)
    start = _start(from_, last)
    connection = connect(bootstrap, options)
    from millstream.client.positions import End
    from millstream.client.read import plan_read
    from millstream.client.session import AdminSession

    with AdminSession(connection) as session:
        plan = plan_read(session, topic, start, partitions=partition or ())
    _tell_what_is_gone(plan, start)
    if output == "table":
        from millstream.cli.formats import ROW_HEADING

        sys.stdout.buffer.write(ROW_HEADING)
    written = _copy(
        connection, plan, write, follow=isinstance(start, End) if follow is None else follow, count=count
    )
    if count is not None and written < count:
        note(f"{topic} ended after {written} records")


def _copy(
    connection: Connection, plan: "ReadPlan", write: "Writer", *, follow: bool, count: int | None
) -> int:
    """Write what the plan reads to stdout; returns how many records that were."""
    from millstream.client.read import read_batches

    written = 0
    if follow:
        sys.stdout.buffer.flush()
    for batch in read_batches(connection, plan, follow=follow, count=count, notify=note):
        sys.stdout.buffer.write(b"".join(map(write, batch)))
        written += len(batch)
        if follow:
            sys.stdout.buffer.flush()
    return written


def _start(from_: str | None, last: int | None) -> "Position":
    from millstream.client.positions import LastRecords, parse_position

    if from_ is not None and last is not None:
        raise BadRequest("give --from or -n, not both")
    if last is not None:
        return LastRecords(last)
    return parse_position("-10" if from_ is None else from_, now_ms=time.time_ns() // 1_000_000)


def _writer(
    template: str | None, key_delimiter: str | None, output: Format | None, key: Encoding, value: Encoding
) -> "Writer":
    from millstream.cli import formats

    if sum(choice is not None for choice in (template, key_delimiter, output)) > 1:
        raise BadRequest("give one of --format, --key-delimiter and -o")
    if output == "json":
        return formats.json_writer(key=key, value=value)
    if output == "yaml":
        return formats.yaml_writer(key=key, value=value)
    if output == "table":
        return formats.row_writer(key=key, value=value)
    if template is None:
        escaped = None if key_delimiter is None else key_delimiter.replace("%", "%%")
        template = "%s\\n" if escaped is None else f"%k{escaped}%s\\n"
    write = formats.format_writer(template, key=key, value=value, null="NULL")
    if sys.stdout.isatty():
        return lambda record: formats.for_terminal(write(record))
    return write


def _tell_what_is_gone(plan: "ReadPlan", start: "Position") -> None:
    """An offset that retention has passed starts later than asked: never without a word."""
    from millstream.client.positions import AtOffset

    if not isinstance(start, AtOffset):
        return
    for p, span in plan.spans.items():
        if start.offset < span.start:
            note(f"{p}: offsets {start.offset} to {span.start - 1} are gone; starting at {span.start}")
