"""Answers on stdout: as a table for people, as JSON or YAML for programs.

Why: one shape of answer, three ways to write it, the same for every command.
Invariants: JSON and YAML carry raw values under stable names; a table cuts nothing off; no colour unless stdout
is a terminal and NO_COLOR is not set.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from millstream.cli import human

Format = Literal["table", "json", "yaml"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the key of the row's value, its heading, how to show it."""

    key: str
    title: str
    show: Callable[[Any], str] = human.plain
    right: bool = False


def emit_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], output: Format) -> None:
    """Rows as a table, or as a list of objects."""
    if output == "table":
        emit_table(rows, columns)
    else:
        emit_value(list(rows), output)


def emit_value(value: Any, output: Format) -> None:
    """A value as JSON or YAML."""
    if output == "yaml":
        import yaml

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
    else:
        import json

        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(text)


def emit_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(column.show(row.get(column.key)))) for column in columns))
    if sys.stdout.isatty():
        Console(file=sys.stdout, highlight=False).print(table)
        return
    # In a pipe nothing folds, and nothing pads the end of a line.
    console = Console(file=sys.stdout, width=100_000, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def emit_line(text: str = "") -> None:
    sys.stdout.write(f"{visible(text)}\n")


def visible(text: str) -> str:
    """Control characters made harmless: data must not steer the terminal it is shown on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def note(text: str) -> None:
    """Words about the answer, on stderr."""
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()
