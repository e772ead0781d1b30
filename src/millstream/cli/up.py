"""`millstream up`: one node in the foreground.

Why: the one command that makes a broker.
Invariants: stdout carries the ready line and nothing else; the Kafka client and the table writer are not
imported; the node's own code decides the exit code.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from millstream.cli.exits import say
from millstream.cli.layers import node_options, unknown_variables
from millstream.model.errors import BadRequest

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def up(
    data: Annotated[
        Path | None, typer.Option(help="Where the log lives. Default: your user data directory.")
    ] = None,
    kafka_port: Annotated[
        int | None, typer.Option(metavar="N", help="Default 9092; 0 picks a free port.")
    ] = None,
    amqp_port: Annotated[
        int | None, typer.Option(metavar="N", help="Default 5672; 0 picks a free port.")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(metavar="N", help="Default 8642; 0 picks a free port.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The address to listen on. Default 127.0.0.1.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="MILLSTREAM_CONFIG",
            help="Settings file. Default: millstream.toml in this directory, if there is one.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of `millstream settings`. Repeatable."),
    ] = None,
) -> None:
    """Run a node here, until Ctrl-C or SIGTERM.

    \b
    millstream up                                     on the usual ports
    millstream up --data ./log --kafka-port 19092     somewhere else
    millstream up --set num.partitions=3 --set log.retention.hours=24
    MILLSTREAM_LOG_FSYNC=os millstream up             faster; a power cut may lose half a minute

    When it serves, it prints one line on stdout:

    \b
    millstream ready kafka=127.0.0.1:9092 amqp=127.0.0.1:5672 http=127.0.0.1:8642

    Flags win over MILLSTREAM_* variables, these over millstream.toml, these over the defaults.
    """
    flags: dict[str, object] = dict(_assignment(pair) for pair in set_ or ())
    named = {
        "data": data,
        "kafka.port": kafka_port,
        "amqp.port": amqp_port,
        "http.port": http_port,
        "host": host,
    }
    flags.update({name: value for name, value in named.items() if value is not None})
    options = node_options(flags, file=config, environment=os.environ)
    for sentence in unknown_variables(os.environ):
        say(sentence)

    from millstream.node.run import run_node

    code = run_node(
        options.settings,
        data=options.data,
        kafka_port=options.kafka_port,
        amqp_port=options.amqp_port,
        http_port=options.http_port,
        announce=announce,
    )
    raise typer.Exit(code)


def announce(line: str) -> None:
    """The ready line, at once: whoever started us waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _assignment(pair: str) -> tuple[str, object]:
    name, separator, value = pair.partition("=")
    if not separator or not name.strip():
        raise BadRequest(f"--set {pair!r}: write it as NAME=VALUE, for example --set num.partitions=3")
    return name.strip(), value
