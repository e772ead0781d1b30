"""`millstream topics`: list, describe, create, delete, configure, grow, cut.

Why: what a person does with topics, by name, with live completion.
Invariants: whatever destroys shows what it will do, takes --dry-run, and asks unless --yes.
"""

import fnmatch
from typing import Annotated, Any

import typer

from millstream.cli import human
from millstream.cli.confirm import confirm_or_stop
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    DryRun,
    KafkaOptions,
    Output,
    Topic,
    Topics,
    Yes,
    admin,
    assignments,
)
from millstream.cli.output import Column, emit_rows, note
from millstream.cli.topic_config import app as config_app
from millstream.cli.topic_describe import describe
from millstream.cli.topic_records import delete_records

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)
app.command()(describe)
app.command("delete-records")(delete_records)
app.add_typer(config_app, name="config")


@app.callback()
def topics() -> None:
    """List, describe, create, change and delete topics.

    \b
    millstream topics list
    millstream topics create orders -n 3 -c retention.ms=86400000
    millstream topics describe orders
    millstream topics config set orders retention.ms=3600000
    """


_LIST_COLUMNS = (
    Column("name", "TOPIC"),
    Column("partitions", "PARTITIONS", right=True),
    Column("replicas", "REPLICAS", right=True),
    Column("records", "RECORDS", human.count, right=True),
    Column("size_bytes", "SIZE", human.size, right=True),
)


@app.command("list")
def list_(
    pattern: Annotated[str, typer.Argument(metavar="[PATTERN]", help="Only names like shop.*")] = "*",
    internal: Annotated[bool, typer.Option("--internal", "-a", help="Internal topics too.")] = False,
    names: Annotated[bool, typer.Option("--names", "-q", help="Names only, one a line; faster.")] = False,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Topics with their partitions, records and size on disk.

    \b
    millstream topics list
    millstream topics list 'shop.*' -o json
    millstream topics list -q | xargs -n1 millstream topics describe

    RECORDS counts offsets: compaction and transactions leave some without a record.
    """
    with admin(bootstrap, options) as session:
        from millstream.client.offsets import offset_spans
        from millstream.client.sizes import disk_use
        from millstream.client.topics import list_topics
        from millstream.model.topics import TopicPartition

        found = [
            topic
            for topic in list_topics(session)
            if (internal or not topic.is_internal) and fnmatch.fnmatchcase(topic.name, pattern)
        ]
        if names:
            emit_names([topic.name for topic in found], output)
            return
        partitions = [TopicPartition(t.name, p) for t in found for p in range(t.partitions)]
        spans = offset_spans(session, partitions)
        disk = disk_use(session, {topic.name for topic in found})
    rows: list[dict[str, Any]] = []
    for topic in found:
        own = [TopicPartition(topic.name, p) for p in range(topic.partitions)]
        rows.append(
            {
                "name": topic.name,
                "partitions": topic.partitions,
                "replicas": topic.replicas,
                "records": sum(spans[p].count for p in own),
                "size_bytes": None if disk is None else sum(disk.partitions.get(p, 0) for p in own),
            }
        )
    emit_rows(rows, _LIST_COLUMNS, output)
    if not rows and output == "table":
        note("no topics: create one with `millstream topics create NAME`")


def emit_names(names: list[str], output: str) -> None:
    from millstream.cli.output import emit_line, emit_value

    if output == "table":
        for name in names:
            emit_line(name)
    else:
        emit_value(names, "json" if output == "json" else "yaml")


@app.command()
def create(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names for the new topics.")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-n", min=1, help="How many. Default: the broker's num.partitions."),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", "-r", min=1, help="Copies, on a cluster. Default: the broker's."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting of the topic. Repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Not an error when it exists already.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Create topics.

    \b
    millstream topics create orders
    millstream topics create clicks payments -n 6
    millstream topics create customers -c cleanup.policy=compact
    millstream topics create audit -c millstream.archive.enable=true -c retention.ms=604800000
    """
    from millstream.client.errors import TopicExists
    from millstream.model.topics import check_topic_name

    for name in names:
        check_topic_name(name)
    settings = assignments(config or (), "--config")
    with admin(bootstrap, options) as session:
        from millstream.client.topics import create_topic

        for name in names:
            try:
                create_topic(
                    session,
                    name,
                    partitions=partitions,
                    replicas=replicas,
                    config=settings,
                    validate_only=dry_run,
                )
            except TopicExists:
                if not if_not_exists:
                    raise
                note(f"{name} exists already")
            else:
                note(f"{'would create' if dry_run else 'created'} {name}")


@app.command()
def delete(
    names: Topics,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Not an error when it is gone.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Delete topics with everything in them.

    \b
    millstream topics delete orders
    millstream topics delete test-1 test-2 --yes
    """
    with admin(bootstrap, options) as session:
        from millstream.client.errors import UnknownTopic
        from millstream.client.offsets import offset_spans, partitions_of
        from millstream.client.topics import delete_topics

        doomed: dict[str, int] = {}
        for name in dict.fromkeys(names):
            try:
                spans = offset_spans(session, partitions_of(session, name))
            except UnknownTopic:
                if not if_exists:
                    raise
                note(f"{name} does not exist")
                continue
            doomed[name] = sum(span.count for span in spans.values())
        if not doomed:
            return
        listed = ", ".join(f"{name} ({human.count(records)} records)" for name, records in doomed.items())
        if dry_run:
            note(f"would delete {listed}")
            return
        confirm_or_stop(f"Delete {listed}?", yes=yes)
        delete_topics(session, list(doomed))
        note(f"deleted {listed}")


@app.command("add-partitions")
def add_partitions_(
    name: Topic,
    total: Annotated[int, typer.Option("--total", "-n", min=1, help="How many it shall have.")],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Give a topic more partitions.

    \b
    millstream topics add-partitions orders --total 6

    Keys are spread over the new count from then on: a key's later records may be in another partition than its
    earlier ones. Partitions can't be taken away again.
    """
    with admin(bootstrap, options) as session:
        from millstream.client.topics import add_partitions, describe_topic

        before = len(describe_topic(session, name).partitions)
        add_partitions(session, name, total, validate_only=dry_run)
    note(f"{name}: {before} partitions {'would become' if dry_run else 'are now'} {total}")
    if before > 0:
        note("keyed records: a key may now go to another partition than before")
