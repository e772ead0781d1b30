"""Asking before something is lost.

Why: deletes and resets can't be taken back.
Invariants: only a person at a terminal is asked; a script without --yes is refused, never assumed to agree.
"""

import sys

import typer

from millstream.model.errors import BadRequest


def confirm_or_stop(question: str, *, yes: bool) -> None:
    """Return when agreed; raise typer.Abort when not."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadRequest(f"{question} There is no terminal to ask on: pass --yes")
    typer.confirm(question, abort=True, err=True)
