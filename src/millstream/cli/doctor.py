"""`millstream doctor`: look at this machine, and say what to do.

Why: when something doesn't work, the first command should say why.
Invariants: every check gives one line; exit code 1 only if something failed; warnings don't.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from millstream.cli import machine_checks as machine
from millstream.cli import network_checks as network
from millstream.cli.exits import FAILED
from millstream.cli.findings import Finding, fail, ok
from millstream.cli.layers import NodeOptions, node_options
from millstream.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, KafkaOptions, Output
from millstream.cli.output import emit_line, emit_value
from millstream.cli.version import versions_in_use
from millstream.client.connection import Connection, parse_options
from millstream.model.errors import MillstreamError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_STYLES = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}


@app.command()
def doctor(
    data: Annotated[Path | None, typer.Option(help="Data directory, as for `up`.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="MILLSTREAM_CONFIG", help="Settings file, as for `up`."),
    ] = None,
    output: Output = "table",
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Check this machine: Python, packages, Java, ports, disk, limits, clock, and the broker.

    \b
    millstream doctor
    millstream doctor --data /var/lib/millstream
    millstream doctor --bootstrap kafka.example.com:9092 -o json

    Each line is ok, warn or fail, with what to do. Exit code 1 when something failed.
    """
    connection = Connection(bootstrap=bootstrap, options=parse_options(options or ()))
    findings = look(data, config, connection)
    if output == "table":
        show(findings)
    else:
        emit_value(
            [
                {"check": f.check, "state": f.state, "detail": f.detail, "advice": f.advice or None}
                for f in findings
            ],
            output,
        )
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(FAILED)


def look(data: Path | None, config: Path | None, connection: Connection) -> list[Finding]:
    """Every finding, in the order shown."""
    versions = versions_in_use()
    findings = [
        ok("millstream", f"{versions['millstream']}, librdkafka {versions['librdkafka']}"),
        machine.check_python(),
        machine.check_packages(),
        machine.check_accelerator(),
        machine.check_java(),
    ]
    flags: dict[str, object] = {} if data is None else {"data": data}
    try:
        node = node_options(flags, file=config, environment=os.environ)
    except MillstreamError as error:
        findings.append(fail("settings", str(error), "correct it; `millstream settings` lists them all"))
        node = node_options(flags, file=Path(os.devnull), environment={})
    return [*findings, *_look_at_node(node), network.check_bootstrap(connection)]


def _look_at_node(node: NodeOptions) -> list[Finding]:
    host = node.settings.host
    return [
        *machine.check_disk(node.data, node.settings),
        machine.check_open_files(node.settings),
        machine.check_clock(node.data),
        network.check_port("kafka", host, node.kafka_port, "--kafka-port"),
        network.check_port("amqp", host, node.amqp_port, "--amqp-port"),
        network.check_port("http", host, node.http_port, "--http-port"),
    ]


def show(findings: list[Finding]) -> None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        advice = f" -> {finding.advice}" if finding.advice else ""
        rest = f"  {finding.check:<{width}}  {finding.detail}{advice}"
        state = f"{finding.state:<4}"
        if colour:
            sys.stdout.write(f"{_STYLES[finding.state]}{state}\x1b[0m")
            emit_line(rest)
        else:
            emit_line(state + rest)
