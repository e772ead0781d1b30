"""Live names for the shell's Tab key.

Why: nobody should have to type a topic's or a group's name.
Invariants: silent and short whatever happens: an unreachable broker, a wrong option, or a slow answer complete
to nothing; nothing is created or changed by asking.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from millstream.client.connection import BOOTSTRAP_DEFAULT, Connection, parse_options

if TYPE_CHECKING:
    from millstream.client.session import AdminSession

_REACH_S = 0.3
_ANSWER_S = 1.5


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Live topics; internal ones only once their `__` is begun."""

    def names(session: "AdminSession") -> list[str]:
        from millstream.client.topics import topic_names

        return topic_names(session)

    return [name for name in _ask(ctx, names) if incomplete.startswith("_") or not name.startswith("__")]


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    def names(session: "AdminSession") -> list[str]:
        from millstream.client.groups import group_names

        return group_names(session)

    return _ask(ctx, names)


def complete_topic_settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """`name=` of every topic setting."""
    from millstream.model.topic_config import TOPIC_SETTINGS

    return [f"{setting.name}=" for setting in TOPIC_SETTINGS if setting.refused is None]


def _ask(ctx: typer.Context, question: "Callable[[AdminSession], list[str]]") -> list[str]:
    try:
        bootstrap = ctx.params.get("bootstrap") or os.environ.get("MILLSTREAM_BOOTSTRAP") or BOOTSTRAP_DEFAULT
        options = parse_options(ctx.params.get("options") or ())
        connection = Connection(bootstrap=bootstrap, options=options, timeout_s=_ANSWER_S)
        connection.require_reachable(_REACH_S)
        from millstream.client.session import AdminSession

        with AdminSession(connection) as session:
            return question(session)
    except Exception:  # a Tab key must never print an error into the command line being typed
        return []
