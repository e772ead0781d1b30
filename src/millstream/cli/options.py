"""Options that many commands share, and opening a connection from them.

Why: `--bootstrap`, `-X` and `-o` mean the same everywhere.
Invariants: the Kafka client is imported only when a connection is opened; an unreachable broker is told at once.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.completion import complete_groups, complete_topics
from millstream.cli.output import Format
from millstream.client.connection import BOOTSTRAP_DEFAULT, Connection, parse_options
from millstream.model.errors import BadRequest

if TYPE_CHECKING:
    from millstream.client.session import AdminSession

__all__ = ["BOOTSTRAP_DEFAULT"]

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT", envvar="MILLSTREAM_BOOTSTRAP", help="The broker to ask."
    ),
]
KafkaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="OPTION=VALUE",
        help="An option of the Kafka client, such as security.protocol=SSL; @FILE reads options from a file. "
        "Repeatable.",
    ),
]
Output = Annotated[Format, typer.Option("--output", "-o", metavar="table|json|yaml", help="How to answer.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, change nothing.")]
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics, help="Name of the topic.")
]
Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topics, help="Names of topics.")
]
Group = Annotated[
    str, typer.Argument(metavar="GROUP", autocompletion=complete_groups, help="Name of the group.")
]
Groups = Annotated[
    list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_groups, help="Names of groups.")
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition. Repeatable."),
]


def connect(bootstrap: str, options: list[str] | None) -> Connection:
    """A connection that has answered once. Raises BrokerUnreachable."""
    connection = Connection(bootstrap=bootstrap, options=parse_options(options or ()))
    connection.require_reachable()
    return connection


@contextmanager
def admin(bootstrap: str, options: list[str] | None) -> "Iterator[AdminSession]":
    """An admin session on a broker that answers."""
    connection = connect(bootstrap, options)
    from millstream.client.session import AdminSession

    with AdminSession(connection) as session:
        yield session


def assignments(pairs: Iterable[str], flag: str) -> dict[str, str]:
    """`a=b` pairs of a repeatable flag. Raises BadRequest."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise BadRequest(f"{flag} {pair!r}: write it as NAME=VALUE")
        found[name.strip()] = value
    return found
