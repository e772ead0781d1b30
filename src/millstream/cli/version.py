"""`millstream version`: ours, and of what we stand on.

Why: the first question of every bug report.
"""

import platform

import typer

from millstream import __version__
from millstream.cli.options import Output
from millstream.cli.output import Column, emit_rows, emit_value

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def version(output: Output = "table") -> None:
    """Versions of Millstream and what it stands on.

    \b
    millstream version
    millstream version -o json
    """
    versions = versions_in_use()
    if output == "table":
        rows = [{"name": name, "version": value} for name, value in versions.items()]
        emit_rows(rows, (Column("name", "NAME"), Column("version", "VERSION")), output)
    else:
        emit_value(versions, output)


def versions_in_use() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"millstream": __version__, "python": platform.python_version()}
    for package in ("confluent-kafka", "uvloop"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    try:
        import confluent_kafka

        found["librdkafka"] = confluent_kafka.libversion()[0]
    except ImportError:
        found["librdkafka"] = "not installed"
    found["platform"] = platform.platform()
    return found
