"""Asking before something is lost.

Why: deletes and resets can't be taken back.
Invariants: only a person at a terminal is asked; a script without --yes is refused, never assumed to agree.
"""

import sys

import typer

from millstream.cli.output import note
from millstream.model.errors import BadRequest


def confirm_or_stop(question: str, *, yes: bool) -> None:
    """Return when agreed; raise typer.Abort when not."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadRequest(f"{question} There is no terminal to ask on: pass --yes")
    # Not typer.confirm: it writes a blank to stdout, which belongs to data.
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was changed")
        raise typer.Abort
