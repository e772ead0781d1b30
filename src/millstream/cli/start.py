"""Starting a node from flags, and the short way to it past the command parser.

Why: the parser behind the other commands takes longer to import than a node takes to start. `millstream up` is
awaited by people, tests and supervisors, so flags in their plain form are read here.
Invariants: only what is understood without doubt is taken; anything else (help, an unknown flag, a missing value)
goes to the full parser, which knows what to say. A test holds the flags of both together.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millstream.cli import exits
from millstream.cli.layers import node_options, unknown_variables
from millstream.model.errors import BadRequest

# Flag of `up` to the name of its value in the settings file.
FLAGS = {
    "--data": "data",
    "--kafka-port": "kafka.port",
    "--amqp-port": "amqp.port",
    "--http-port": "http.port",
    "--host": "host",
}


@dataclass(slots=True, kw_only=True)
class UpFlags:
    values: dict[str, object] = field(default_factory=dict)
    assignments: list[str] = field(default_factory=list)
    """`NAME=VALUE` of each --set."""
    config: Path | None = None


def read_flags(arguments: Sequence[str]) -> UpFlags | None:
    """The flags of `up`, or None when the full parser must look at them."""
    flags = UpFlags()
    left = list(arguments)
    while left:
        name, separator, value = left.pop(0).partition("=")
        if name not in FLAGS and name not in ("--set", "--config"):
            return None
        if not separator:
            if not left or left[0].startswith("-"):
                return None
            value = left.pop(0)
        if name == "--set":
            flags.assignments.append(value)
        elif name == "--config":
            flags.config = Path(value)
        else:
            flags.values[FLAGS[name]] = value
    return flags


def start(flags: UpFlags) -> int:
    """Run a node until it is stopped; returns its exit code. Raises MillstreamError."""
    config = flags.config
    if config is None and os.environ.get("MILLSTREAM_CONFIG"):
        config = Path(os.environ["MILLSTREAM_CONFIG"])
    values = {**dict(_assignment(pair) for pair in flags.assignments), **flags.values}
    options = node_options(values, file=config, environment=os.environ)
    for sentence in unknown_variables(os.environ):
        exits.say(sentence)

    from millstream.node.run import run_node

    return run_node(
        options.settings,
        data=options.data,
        kafka_port=options.kafka_port,
        amqp_port=options.amqp_port,
        http_port=options.http_port,
        announce=announce,
    )


def start_and_exit(flags: UpFlags) -> None:
    """`start` with its end as every command ends: one line on failure, a documented exit code."""
    try:
        code = start(flags)
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    except Exception as error:
        code = exits.report(error)
    sys.exit(code)


def announce(line: str) -> None:
    """The ready line, at once: whoever started us waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _assignment(pair: str) -> tuple[str, object]:
    name, separator, value = pair.partition("=")
    if not separator or not name.strip():
        raise BadRequest(f"--set {pair!r}: write it as NAME=VALUE, for example --set num.partitions=3")
    return name.strip(), value
