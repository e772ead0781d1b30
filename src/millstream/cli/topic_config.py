"""`millstream topics config`: read and change a topic's settings.

Why: settings are changed one at a time, without touching the others.
Invariants: `get` shows what was set on the topic, and with --all the defaults too; `set` sends only what is named.
"""

from typing import Annotated

import typer

from millstream.cli.completion import complete_topic_settings
from millstream.cli.options import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    DryRun,
    KafkaOptions,
    Output,
    Topic,
    admin,
    assignments,
)
from millstream.cli.output import Column, emit_rows, note
from millstream.model.errors import BadRequest

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False)

_COLUMNS = (Column("name", "SETTING"), Column("value", "VALUE"), Column("source", "SOURCE"))


@app.callback()
def config() -> None:
    """Read and change a topic's settings.

    \b
    millstream topics config get orders
    millstream topics config set orders retention.ms=3600000
    """


@app.command()
def get(
    topic: Topic,
    names: Annotated[list[str] | None, typer.Argument(metavar="[SETTING]...", help="Only these.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Those at their default too.")] = False,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """What is set on a topic.

    \b
    millstream topics config get orders
    millstream topics config get orders retention.ms segment.bytes
    millstream topics config get orders --all -o json
    """
    with admin(bootstrap, options) as session:
        from millstream.client.topics import topic_configs

        found = topic_configs(session, topic)
    known = {value.name for value in found}
    for name in names or ():
        if name not in known:
            raise _unknown_setting(name, known)
    rows = [
        {"name": value.name, "value": value.value, "source": value.source}
        for value in found
        if value.name in (names or ()) or (not names and (everything or not value.is_default))
    ]
    emit_rows(rows, _COLUMNS, output)
    if not rows:
        note(f"{topic} has every setting at its default; --all shows them")


@app.command("set")
def set_(
    topic: Topic,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...", autocompletion=complete_topic_settings, help="What to set."
        ),
    ] = None,
    reset: Annotated[
        list[str] | None, typer.Option("--reset", metavar="NAME", help="Back to its default. Repeatable.")
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Change settings of a topic; those not named stay as they are.

    \b
    millstream topics config set orders retention.ms=3600000 segment.ms=600000
    millstream topics config set orders --reset retention.ms
    millstream topics config set orders cleanup.policy=compact --dry-run
    """
    wanted = assignments(changes or (), "config set")
    if not wanted and not reset:
        raise BadRequest("nothing to change: give NAME=VALUE, or --reset NAME")
    with admin(bootstrap, options) as session:
        from millstream.client.topics import alter_topic_configs

        alter_topic_configs(session, topic, set_values=wanted, reset=reset or (), validate_only=dry_run)
    done = [f"{name}={value}" for name, value in wanted.items()]
    done += [f"{name} back to its default" for name in reset or ()]
    note(f"{topic}: {'would set' if dry_run else 'set'} {', '.join(done)}")


def _unknown_setting(name: str, known: set[str]) -> BadRequest:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "--all lists them"
    return BadRequest(f"{name} is not a topic setting: {hint}")
