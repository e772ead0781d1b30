"""The root command: which commands there are, loaded one at a time, and how a run ends.

Why: `millstream up` must not wait for the Kafka client, nor `--help` for anything; and every way to fail must
end in one line and a documented exit code.
Invariants: the module of a command is imported only when that command runs (or is completed); stdout closed by
its reader ends a command quietly; Ctrl-C too.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperGroup

from millstream.cli import exits
from millstream.model.errors import MillstreamError


class _Command(NamedTuple):
    module: str
    help: str


COMMANDS: dict[str, _Command] = {
    "up": _Command("up", "Run a node here: a Kafka broker in one process."),
    "topics": _Command("topics", "List, describe, create, change and delete topics."),
    "groups": _Command("groups", "See consumer groups and their lag; reset and delete them."),
    "produce": _Command("produce", "Send records from the command line or stdin."),
    "tail": _Command("tail", "Read records: the last, from a place, or as they come."),
    "doctor": _Command("doctor", "Check this machine, and say what to do."),
    "settings": _Command("settings", "Every setting of a node: value, default, meaning."),
    "version": _Command("version", "Versions of Millstream and what it stands on."),
}


class RootGroup(TyperGroup):
    """Loads a command when it is named, and turns every outcome into an exit code."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Names only: `get_command` loads, and typer's "did you mean" looks at the keys.
        self.commands = cast(Any, dict.fromkeys(COMMANDS))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"millstream.cli.{COMMANDS[cmd_name].module}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except typer.TyperException as error:
            # Some of the parser's errors don't know which command they are about.
            if getattr(error, "ctx", None) is None and ctx.invoked_subcommand:
                error.command_path = f"{ctx.command_path} {ctx.invoked_subcommand}"  # type: ignore[attr-defined]
            raise
        except BrokenPipeError:
            # The reader has what it wanted (`| head`). Python would complain again at exit.
            _silence_stdout()
            raise typer.Exit(exits.OK) from None
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Always ends in SystemExit with a documented code."""
        try:
            outcome = super().main(
                args=args, prog_name="millstream", complete_var=complete_var, standalone_mode=False, **extra
            )
            code = outcome if isinstance(outcome, int) else exits.OK
        except typer.TyperException as error:
            code = _wrong_usage(error)
        except typer.Abort:
            code = exits.FAILED
        except MillstreamError as error:
            code = exits.report(error)
        except Exception as error:
            code = exits.report(error)
        sys.exit(code)


def _wrong_usage(error: typer.TyperException) -> int:
    text = error.format_message()
    if text.startswith("Usage:"):  # a command without its subcommand shows its help
        typer.echo(text, err=True)
        return error.exit_code
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else getattr(error, "command_path", "millstream")
    exits.say(f"{text.rstrip('.')}: see `{path} --help`")
    return error.exit_code


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file behind it, as in tests
        return


app = typer.Typer(
    cls=RootGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=exits.HELP,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from millstream import __version__

        typer.echo(f"millstream {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Stream processing in one pip install: an event log that any Kafka client can use.

    \b
    millstream up                                  start a node on this machine
    millstream topics create orders -n 3           a topic with three partitions
    echo '{"id": 1}' | millstream produce orders   send a record
    millstream tail orders -f                      read it, and what comes after
    millstream groups describe billing             how far behind is that group?

    The commands speak to the node on 127.0.0.1:9092, or to any Kafka cluster with --bootstrap HOST:PORT
    (or MILLSTREAM_BOOTSTRAP).
    """
