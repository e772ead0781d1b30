"""Every command, as its own help describes it."""

from collections.abc import Iterator
from typing import Any

import typer
from docs.reference_pages.markdown import page

from millstream.cli.root import COMMANDS, app

_WIDTH = 100
_SHELL_OPTIONS = ("--install-completion", "--show-completion")

_INTRODUCTION = """\
Data goes to stdout, words about it to stderr. `-o json` and `-o yaml` give a program everything the table shows.
Commands that destroy take `--dry-run`, and ask unless `--yes` is given. Every command but `up`, `settings` and
`version` speaks to any Kafka cluster: `--bootstrap HOST:PORT` (or `MILLSTREAM_BOOTSTRAP`), with options of the client
as `-X security.protocol=SSL`. `NO_COLOR` is honoured. What the exit codes mean is in
[exit-codes.md](exit-codes.md); `millstream --install-completion` teaches the shell the commands, and the names of
live topics and groups."""


def cli_page() -> str:
    root = typer.main.get_command(app)
    parts = [_INTRODUCTION, _section("millstream", root, None, 2)]
    context = _context(root, "millstream", None)
    for name in COMMANDS:
        command = root.get_command(context, name)  # type: ignore[attr-defined]  # RootGroup has it
        parts += _sections(name, command, context, 2)
    return page("Commands", *parts)


def _sections(name: str, command: Any, parent: Any, depth: int) -> Iterator[str]:
    context = _context(command, name, parent)
    yield _section(context.command_path, command, parent, depth, name)
    for inner in sorted(getattr(command, "commands", None) or {}):
        yield from _sections(inner, command.commands[inner], context, depth + 1)


def _section(path: str, command: Any, parent: Any, depth: int, name: str | None = None) -> str:
    context = _context(command, name or path, parent)
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    return f"{'#' * depth} {path}\n\n```text\n" + "\n".join(_without_shell_options(lines)) + "\n```"


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    )


def _without_shell_options(lines: Iterator[str]) -> Iterator[str]:
    """The help without the options for completion, which are the same everywhere and depend on the shell."""
    is_skipping = False
    for line in lines:
        if line.strip().startswith(_SHELL_OPTIONS):
            is_skipping = True
        elif is_skipping and line.startswith(" " * 12):
            continue  # the rest of the skipped option's help
        else:
            is_skipping = False
            yield line
