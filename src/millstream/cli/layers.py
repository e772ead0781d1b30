"""A node's settings from where people put them: flags, variables, a file, defaults.

Why: the same setting has one name in all of them, and the nearest to the person wins.
Invariants: flags over `MILLSTREAM_*` variables over `millstream.toml` over defaults; an unknown name in a flag or
in the file is refused, with names that come close; an unknown variable is only mentioned, since the environment
is shared with others.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from millstream.model.errors import BadRequest, InvalidSetting
from millstream.model.settings import Settings, setting_names, settings_from, settings_from_environment

FILE_NAME = "millstream.toml"

# What `up` takes besides the node's settings, by its name in the file; the flag has `-` for the dot.
PLACES: dict[str, str] = {"data": "", "kafka.port": "9092", "amqp.port": "5672", "http.port": "8642"}
_OTHER_VARIABLES = frozenset({"MILLSTREAM_BOOTSTRAP", "MILLSTREAM_DEBUG", "MILLSTREAM_CONFIG"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    settings: Settings
    data: Path
    kafka_port: int
    amqp_port: int
    http_port: int


def node_options(
    flags: Mapping[str, object], *, file: Path | None, environment: Mapping[str, str]
) -> NodeOptions:
    """Everything a node starts from. Raises InvalidSetting or BadRequest."""
    merged: dict[str, object] = {**PLACES, **file_layer(file), **variable_layer(environment), **flags}
    places = {name: str(merged.pop(name)) for name in PLACES}
    return NodeOptions(
        settings=_settings(merged),
        data=Path(places["data"]).expanduser() if places["data"] else default_data_directory(environment),
        kafka_port=_port("kafka.port", places["kafka.port"]),
        amqp_port=_port("amqp.port", places["amqp.port"]),
        http_port=_port("http.port", places["http.port"]),
    )


def settings_in_force(*, file: Path | None, environment: Mapping[str, str]) -> Settings:
    return node_options({}, file=file, environment=environment).settings


def file_layer(path: Path | None) -> dict[str, object]:
    """Settings of a file; of `millstream.toml` in this directory, if there is one, when no path is given."""
    if path is None:
        path = Path(FILE_NAME)
        if not path.is_file():
            return {}
    import tomllib

    try:
        with path.open("rb") as opened:
            return flattened(tomllib.load(opened))
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(f"{path} is not TOML ({error}): write lines such as num.partitions = 3") from None
    except OSError as error:
        raise BadRequest(f"{path} can't be read ({error.strerror}): check the path of --config") from None


def flattened(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested tables as dotted names: `[log] fsync = "os"` is `log.fsync`; lists become `a,b`."""
    found: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(flattened(value, f"{prefix}{name}."))
        elif isinstance(value, list):
            found[f"{prefix}{name}"] = ",".join(str(part) for part in value)
        else:
            found[f"{prefix}{name}"] = value
    return found


def variable_layer(environment: Mapping[str, str]) -> dict[str, object]:
    places = {_variable(name): name for name in PLACES}
    found: dict[str, object] = {
        places[variable]: value for variable, value in environment.items() if variable in places and value
    }
    found.update(settings_from_environment(environment))
    return found


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each `MILLSTREAM_*` variable that means nothing to us."""
    known = {_variable(name) for name in (*PLACES, *setting_names())} | _OTHER_VARIABLES
    sentences = []
    for variable in sorted(environment):
        if (
            variable.startswith("MILLSTREAM_")
            and not variable.startswith("MILLSTREAM_TEST_")
            and variable not in known
        ):
            near = _near(variable, known)
            hint = f": did you mean {near}?" if near else ": `millstream settings` lists them"
            sentences.append(f"{variable} is not a setting and has no effect{hint}")
    return sentences


def default_data_directory(environment: Mapping[str, str]) -> Path:
    """The platform's place for a user's data."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "millstream"
    if os.name == "nt":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "millstream"
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "millstream"


def _variable(name: str) -> str:
    return "MILLSTREAM_" + name.upper().replace(".", "_")


def _settings(values: Mapping[str, object]) -> Settings:
    try:
        return settings_from(values)
    except InvalidSetting as error:
        near = _near(error.name, setting_names())
        if near and error.name not in setting_names():
            raise InvalidSetting(error.name, error.value, f"is not a setting; did you mean {near}?") from None
        raise


def _near(name: str, known: Iterable[str]) -> str | None:
    import difflib  # only those who mistype pay for it

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def _port(name: str, text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise InvalidSetting(name, text, "is not a port: give 0 (a free one) to 65535")
    return int(text)
