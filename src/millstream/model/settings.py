"""Every setting of a node: its name, default and explanation.

Why: flags over `MILLSTREAM_*` variables over `millstream.toml` over these defaults, all by one name.
Invariants: a field `a_b` is the setting `a.b`, the flag `--set a.b=VALUE` and the variable `MILLSTREAM_A_B`;
settings that a Kafka broker has carry its names and meanings; an unknown name is refused.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

from millstream.model.errors import InvalidSetting
from millstream.model.topic_config import TOPIC_SETTINGS

FsyncMode = Literal["always", "interval", "os"]


def _setting(default: Any, doc: str, *, minimum: int | None = None) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A node's settings. Topic defaults (`log.retention.ms` and the like) are in `topic_defaults`."""

    node_id: int = _setting(1, "The broker id that clients see.", minimum=0)
    host: str = _setting("127.0.0.1", "The address to listen on. Loopback unless you change it.")
    advertised_host: str = _setting(
        "", "The host name told to clients; empty tells each client the address that it reached."
    )

    auto_create_topics_enable: bool = _setting(True, "Create a topic when a client first asks for it.")
    num_partitions: int = _setting(1, "Partitions of a topic created without a count.", minimum=1)
    delete_topic_enable: bool = _setting(True, "Allow topics to be deleted.")
    max_partitions: int = _setting(20_000, "The most partitions this node will hold.", minimum=1)

    log_fsync: FsyncMode = _setting(
        "always",
        "`always`: acks=all is answered after fsync. `interval`: fsync every log.fsync.interval.ms; a power cut "
        "may lose that much. `os`: the operating system decides; a power cut may lose half a minute.",
    )
    log_fsync_interval_ms: int = _setting(1_000, "How often `log.fsync=interval` syncs.", minimum=1)
    log_dir_archive: str = _setting(
        "", "Where archived segments go; empty is `archive` in the data directory."
    )
    log_retention_check_interval_ms: int = _setting(300_000, "How often retention is checked.", minimum=1)
    log_cleaner_enable: bool = _setting(True, "Compact topics with cleanup.policy=compact.")
    log_cleaner_backoff_ms: int = _setting(15_000, "How often the cleaner looks for work.", minimum=1)
    log_open_files_max: int = _setting(1_000, "Segment files held open at once.", minimum=16)
    log_disk_reserve_bytes: int = _setting(
        64 * 1024 * 1024, "Produces are refused while less than this is free on the disk.", minimum=0
    )
    producer_id_expiration_ms: int = _setting(
        86_400_000, "When an idle producer's sequence is forgotten.", minimum=1
    )

    offsets_retention_minutes: int = _setting(
        10_080, "When an empty group's offsets are forgotten.", minimum=1
    )
    offsets_retention_check_interval_ms: int = _setting(600_000, "How often offsets are checked.", minimum=1)
    offset_metadata_max_bytes: int = _setting(4_096, "The largest metadata of a committed offset.", minimum=0)
    offsets_topic_num_partitions: int = _setting(4, "Partitions of the internal offsets topic.", minimum=1)
    group_initial_rebalance_delay_ms: int = _setting(
        0, "How long a new group waits for more members before its first rebalance.", minimum=0
    )
    group_min_session_timeout_ms: int = _setting(6_000, "The shortest session timeout taken.", minimum=1)
    group_max_session_timeout_ms: int = _setting(1_800_000, "The longest session timeout taken.", minimum=1)
    group_max_size: int = _setting(10_000, "The most members of a group.", minimum=1)

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _setting(
        10_000, "How often transactions are checked for their timeout.", minimum=1
    )

    socket_request_max_bytes: int = _setting(104_857_600, "The largest request taken.", minimum=1_024)
    connections_max: int = _setting(10_000, "The most client connections; more are refused.", minimum=1)
    connections_max_idle_ms: int = _setting(600_000, "An idle connection is closed after this.", minimum=1)
    queued_max_request_bytes: int = _setting(
        268_435_456, "Bytes of requests in flight over all connections; more waits.", minimum=1_048_576
    )
    connection_output_max_bytes: int = _setting(
        67_108_864, "Unsent bytes held for one connection before its requests wait.", minimum=65_536
    )
    fetch_max_bytes: int = _setting(57_671_680, "The most bytes one fetch returns.", minimum=1_024)
    max_incremental_fetch_session_cache_slots: int = _setting(1_000, "Fetch sessions remembered.", minimum=0)

    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Node-wide defaults of topic settings, by the broker's name for them (`log.retention.ms`)."""

    def described(self) -> list[tuple[str, Any, str]]:
        """(name, value, explanation) of each setting, for `doctor`, DescribeConfigs and the reference."""
        return [
            (setting_name(f.name), getattr(self, f.name), f.metadata["doc"])
            for f in dataclasses.fields(self)
            if "doc" in f.metadata
        ]


def setting_name(field_name: str) -> str:
    return field_name.replace("_", ".")


_FIELDS = {setting_name(f.name): f for f in dataclasses.fields(Settings) if "doc" in f.metadata}
_TOPIC_DEFAULTS = {setting.broker_name: setting for setting in TOPIC_SETTINGS if setting.broker_name}
_RETENTION_UNITS_MS = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}


def settings_from(*layers: Mapping[str, object]) -> Settings:
    """Settings from layers of `name → value`, the later over the earlier. Raises InvalidSetting."""
    values: dict[str, Any] = {}
    topic_defaults: dict[str, str] = {}
    for layer in layers:
        for name, raw in layer.items():
            if name in _FIELDS:
                values[_FIELDS[name].name] = _parse(name, raw)
            elif name in _TOPIC_DEFAULTS:
                topic_defaults[name] = _topic_default(name, raw)
            elif name in _RETENTION_UNITS_MS:
                topic_defaults["log.retention.ms"] = _retention_ms(name, raw)
            else:
                raise InvalidSetting(name, raw, "is not a setting; `millstream settings` lists them all")
    return Settings(**values, topic_defaults=topic_defaults)


def settings_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The layer made of `MILLSTREAM_*` variables; names that are no setting are left out."""
    known = {"MILLSTREAM_" + name.upper().replace(".", "_"): name for name in setting_names()}
    return {known[variable]: value for variable, value in environment.items() if variable in known}


def setting_names() -> list[str]:
    return sorted([*_FIELDS, *_TOPIC_DEFAULTS, *_RETENTION_UNITS_MS])


def _topic_default(name: str, raw: object) -> str:
    text = _text(raw)
    try:
        _TOPIC_DEFAULTS[name].parse(text)
    except InvalidSetting as error:
        raise InvalidSetting(name, text, error.reason) from None
    return text


def _retention_ms(name: str, raw: object) -> str:
    try:
        count = int(_text(raw))
    except ValueError:
        raise InvalidSetting(name, raw, "is not a whole number") from None
    return str(-1 if count < 0 else count * _RETENTION_UNITS_MS[name])


def _text(raw: object) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return str(raw)


def _parse(name: str, raw: object) -> Any:
    setting = _FIELDS[name]
    kind: Any = setting.type
    text = _text(raw)
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise InvalidSetting(name, text, f"must be one of {', '.join(get_args(kind))}")
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise InvalidSetting(name, text, "must be true or false")
        return text.lower() == "true"
    if kind is int:
        return _parse_int(name, text, setting.metadata["minimum"])
    return text


def _parse_int(name: str, text: str, minimum: int | None) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InvalidSetting(name, text, "is not a whole number") from None
    if minimum is not None and value < minimum:
        raise InvalidSetting(name, text, f"must be at least {minimum}")
    return value
