"""`millstream up`: one node in the foreground.

Why: the one command that makes a broker. This file describes its flags and its help; `start` does the work.
Invariants: stdout carries the ready line and nothing else; the node decides the exit code.
"""

from pathlib import Path
from typing import Annotated

import typer

from millstream.cli.start import UpFlags, start

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
    named = {
        "data": data,
        "kafka.port": kafka_port,
        "amqp.port": amqp_port,
        "http.port": http_port,
        "host": host,
    }
    values: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    raise typer.Exit(start(UpFlags(values=values, assignments=set_ or [], config=config)))
