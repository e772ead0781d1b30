"""`millstream settings`: every setting of a node with its value here, its default and its meaning.

Why: a setting that isn't listed might as well not exist.
Invariants: generated from `model.settings`; values are those that `millstream up` would take from this directory
and this environment.
"""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from millstream.cli.layers import PLACES, default_data_directory, node_options
from millstream.cli.options import Output
from millstream.cli.output import Column, emit_rows
from millstream.model.settings import Settings
from millstream.model.topic_config import TOPIC_SETTINGS

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_PLACES_HELP = {
    "data": "Where the log lives (--data).",
    "kafka.port": "The Kafka protocol (--kafka-port); 0 picks a free port.",
    "amqp.port": "AMQP 0-9-1 (--amqp-port); 0 picks a free port.",
    "http.port": "Health and metrics (--http-port); 0 picks a free port.",
}
_COLUMNS = (
    Column("name", "SETTING"),
    Column("value", "VALUE"),
    Column("default", "DEFAULT"),
    Column("meaning", "MEANING"),
)


@app.command()
def settings(
    name: Annotated[str, typer.Argument(metavar="[PART]", help="Only names that hold this text.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="MILLSTREAM_CONFIG", help="Settings file, as for `up`."),
    ] = None,
    output: Output = "table",
) -> None:
    """Every setting of a node: the value it would have here, its default, its meaning.

    \b
    millstream settings              all of them
    millstream settings retention    those about retention
    millstream settings -o json      for a program

    A setting a.b is the flag `--set a.b=VALUE` of `millstream up`, the variable MILLSTREAM_A_B, and the line
    `a.b = VALUE` in millstream.toml.
    """
    rows = [row for row in _rows(config) if name in row["name"]]
    emit_rows(rows, _COLUMNS, output)


def _rows(config: Path | None) -> list[dict[str, Any]]:
    options = node_options({}, file=config, environment=os.environ)
    places = {
        "data": str(options.data),
        "kafka.port": str(options.kafka_port),
        "amqp.port": str(options.amqp_port),
        "http.port": str(options.http_port),
    }
    defaults = {**PLACES, "data": str(default_data_directory(os.environ))}
    rows = [_row(name, places[name], defaults[name], _PLACES_HELP[name]) for name in PLACES]
    for (name, value, meaning), (_, default, _) in zip(
        options.settings.described(), Settings().described(), strict=True
    ):
        rows.append(_row(name, value, default, meaning))
    for setting in TOPIC_SETTINGS:
        if setting.broker_name and setting.refused is None:
            value = options.settings.topic_defaults.get(setting.broker_name, setting.default)
            meaning = f"Default of a topic's {setting.name}. {setting.doc}"
            rows.append(_row(setting.broker_name, value, setting.default, meaning))
    return rows


def _row(name: str, value: object, default: object, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": _text(value),
        "default": _text(default),
        "variable": "MILLSTREAM_" + name.upper().replace(".", "_"),
        "meaning": meaning,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
