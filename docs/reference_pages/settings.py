"""Every setting of a node."""

import dataclasses
from typing import Any, Literal, get_args, get_origin

from docs.reference_pages.markdown import code, page, table

from millstream.cli.layers import PLACES
from millstream.model.settings import Settings, setting_name
from millstream.model.topic_config import TOPIC_SETTINGS

_INTRODUCTION = """\
A setting `a.b` is the flag `--set a.b=VALUE` of `millstream up`, the variable `MILLSTREAM_A_B`, and the line
`a.b = VALUE` in `millstream.toml`. Flags win over variables, variables over the file, the file over the defaults.
An unknown name in a flag or in the file is refused. Settings that a Kafka broker has carry its names and meanings.

`millstream settings` shows the values that a node would have where you stand. What can be set on a single topic is in
[topic-settings.md](topic-settings.md); the layers are explained in
[Operations](../guides/operations.md#settings)."""

_PLACES_DOC = {
    "data": "Directory of the log (`--data`). Default: the user data directory of the platform.",
    "kafka.port": "Port of the Kafka protocol (`--kafka-port`). 0 picks a free one.",
    "amqp.port": "Port reserved for AMQP (`--amqp-port`). 0 picks a free one. Connections are refused for now.",
    "http.port": "Port of health and metrics (`--http-port`). 0 picks a free one.",
}


def settings_page() -> str:
    fields = [field for field in dataclasses.fields(Settings) if "doc" in field.metadata]
    return page(
        "Settings of a node",
        _INTRODUCTION,
        "## Where it runs",
        table(
            ("setting", "default", "meaning"),
            ((code(name), code(default), _PLACES_DOC[name]) for name, default in PLACES.items()),
        ),
        "## How it works",
        table(("setting", "takes", "default", "meaning"), map(_row, fields)),
        "## Defaults of topics",
        "What a topic uses when nothing is set on the topic itself. `log.retention.hours` and "
        "`log.retention.minutes` are other ways to write `log.retention.ms`.",
        table(
            ("setting", "default", "the topic's own"),
            (
                (code(setting.broker_name), code(setting.default), _link(setting.name))
                for setting in TOPIC_SETTINGS
                if setting.broker_name and setting.refused is None
            ),
        ),
    )


def _row(field: "dataclasses.Field[Any]") -> tuple[str, str, str, str]:
    return code(setting_name(field.name)), _takes(field), code(field.default), field.metadata["doc"]


def _takes(field: "dataclasses.Field[Any]") -> str:
    if get_origin(field.type) is Literal:
        return ", ".join(code(choice) for choice in get_args(field.type))
    if field.type is bool:
        return "`true`, `false`"
    if field.type is int:
        minimum = field.metadata["minimum"]
        return "a whole number" if minimum is None else f"a whole number, {minimum} or more"
    return "text"


def _link(topic_setting: str) -> str:
    return f"[`{topic_setting}`](topic-settings.md)"
