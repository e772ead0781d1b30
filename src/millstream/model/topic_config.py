"""Every topic setting of Kafka 4.3, and ours, with what we do about each.

Why: a setting is either honoured or refused, never silently ignored. Clients read this table through
DescribeConfigs and change it through Create/Alter/IncrementalAlterConfigs.
Invariants: names, types and defaults are Kafka's; ours start with `millstream.`; a refused setting takes
only its default and says what to use instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from millstream.model.errors import InvalidSetting

INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1

Kind = Literal["boolean", "string", "int", "long", "double", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """One row of the table. `broker_name` is the node setting that gives topics their default."""

    name: str
    kind: Kind
    default: str
    doc: str
    broker_name: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    excluded: tuple[int, ...] = ()
    """Numbers inside the range that are not taken all the same."""
    refused: str | None = None
    """Why any value but the default is refused; None when the setting is honoured."""

    def parse(self, text: str) -> object:
        """The typed value of `text`; raises InvalidSetting."""
        try:
            value = _PARSERS[self.kind](text)
        except ValueError:
            raise InvalidSetting(self.name, text, f"is not a {self.kind}") from None
        if self.minimum is not None and value < self.minimum:  # type: ignore[operator]  # numbers only
            raise InvalidSetting(self.name, text, f"must be at least {self.minimum:g}")
        if self.maximum is not None and value > self.maximum:  # type: ignore[operator]  # numbers only
            raise InvalidSetting(self.name, text, f"must be at most {self.maximum:g}")
        if value in self.excluded:
            raise InvalidSetting(self.name, text, "is not taken")
        if self.choices:
            parts = value if isinstance(value, tuple) else (value,)
            unknown = [part for part in parts if part not in self.choices]
            if unknown:
                raise InvalidSetting(self.name, text, f"must be one of {', '.join(self.choices)}")
        if self.refused is not None and value != _PARSERS[self.kind](self.default):
            raise InvalidSetting(self.name, text, self.refused)
        return value


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _boolean(text: str) -> bool:
    try:
        return _parse_boolean(text)
    except KeyError:
        raise ValueError(text) from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_PARSERS: dict[Kind, Callable[[str], object]] = {
    "boolean": _boolean,
    "string": str,
    "int": int,
    "long": int,
    "double": float,
    "list": _list,
}

_ONE_NODE = "has no meaning on a single node: there is one replica"
_NO_TIERS = "tiered storage is not offered: use millstream.archive.enable"

TOPIC_SETTINGS: tuple[TopicSetting, ...] = (
    TopicSetting(
        name="cleanup.policy",
        kind="list",
        default="delete",
        broker_name="log.cleanup.policy",
        choices=("delete", "compact"),
        doc="`delete` drops old segments by retention; `compact` keeps the last value of each key; both may be given.",
    ),
    TopicSetting(
        name="compression.type",
        kind="string",
        default="producer",
        broker_name="compression.type",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        doc="How batches are stored: as the producer sent them, or recompressed.",
    ),
    TopicSetting(
        name="compression.gzip.level",
        kind="int",
        default="-1",
        broker_name="compression.gzip.level",
        minimum=-1,
        maximum=9,
        excluded=(0,),
        doc="Level used when recompressing to gzip.",
    ),
    TopicSetting(
        name="compression.lz4.level",
        kind="int",
        default="9",
        broker_name="compression.lz4.level",
        minimum=1,
        maximum=17,
        doc="Level used when recompressing to lz4.",
    ),
    TopicSetting(
        name="compression.zstd.level",
        kind="int",
        default="3",
        broker_name="compression.zstd.level",
        minimum=-131072,
        maximum=22,
        doc="Level used when recompressing to zstd.",
    ),
    TopicSetting(
        name="delete.retention.ms",
        kind="long",
        default="86400000",
        broker_name="log.cleaner.delete.retention.ms",
        minimum=0,
        doc="How long a tombstone stays readable on a compacted topic.",
    ),
    TopicSetting(
        name="file.delete.delay.ms",
        kind="long",
        default="60000",
        broker_name="log.segment.delete.delay.ms",
        minimum=0,
        doc="How long a deleted segment's file is kept on disk before it is unlinked.",
    ),
    TopicSetting(
        name="flush.messages",
        kind="long",
        default=str(INT64_MAX),
        broker_name="log.flush.interval.messages",
        minimum=1,
        doc="Sync after this many records, whatever `log.fsync` says; 1 syncs every batch.",
    ),
    TopicSetting(
        name="flush.ms",
        kind="long",
        default=str(INT64_MAX),
        broker_name="log.flush.interval.ms",
        minimum=0,
        doc="Sync records no later than this after they were written, whatever `log.fsync` says.",
    ),
    TopicSetting(
        name="follower.replication.throttled.replicas",
        kind="list",
        default="",
        refused=_ONE_NODE,
        doc="Replication throttle of followers.",
    ),
    TopicSetting(
        name="index.interval.bytes",
        kind="int",
        default="4096",
        broker_name="log.index.interval.bytes",
        minimum=0,
        doc="An index entry is written for about every so many bytes of a segment.",
    ),
    TopicSetting(
        name="leader.replication.throttled.replicas",
        kind="list",
        default="",
        refused=_ONE_NODE,
        doc="Replication throttle of leaders.",
    ),
    TopicSetting(
        name="local.retention.bytes",
        kind="long",
        default="-2",
        refused=_NO_TIERS,
        doc="Size kept locally under tiered storage.",
    ),
    TopicSetting(
        name="local.retention.ms",
        kind="long",
        default="-2",
        refused=_NO_TIERS,
        doc="Age kept locally under tiered storage.",
    ),
    TopicSetting(
        name="max.compaction.lag.ms",
        kind="long",
        default=str(INT64_MAX),
        broker_name="log.cleaner.max.compaction.lag.ms",
        minimum=1,
        doc="A record is compacted no later than this after it was written.",
    ),
    TopicSetting(
        name="max.message.bytes",
        kind="int",
        default="1048588",
        broker_name="message.max.bytes",
        minimum=0,
        doc="The largest record batch taken.",
    ),
    TopicSetting(
        name="message.timestamp.after.max.ms",
        kind="long",
        default="3600000",
        broker_name="log.message.timestamp.after.max.ms",
        minimum=0,
        doc="How far a record's timestamp may lie ahead of the node's clock.",
    ),
    TopicSetting(
        name="message.timestamp.before.max.ms",
        kind="long",
        default=str(INT64_MAX),
        broker_name="log.message.timestamp.before.max.ms",
        minimum=0,
        doc="How far a record's timestamp may lie behind the node's clock.",
    ),
    TopicSetting(
        name="message.timestamp.type",
        kind="string",
        default="CreateTime",
        broker_name="log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
        doc="Whose time a record carries: the producer's, or that of the append.",
    ),
    TopicSetting(
        name="min.cleanable.dirty.ratio",
        kind="double",
        default="0.5",
        broker_name="log.cleaner.min.cleanable.ratio",
        minimum=0,
        maximum=1,
        doc="Compaction starts when this share of the log is not yet compacted.",
    ),
    TopicSetting(
        name="min.compaction.lag.ms",
        kind="long",
        default="0",
        broker_name="log.cleaner.min.compaction.lag.ms",
        minimum=0,
        doc="A record stays uncompacted for at least this long.",
    ),
    TopicSetting(
        name="min.insync.replicas",
        kind="int",
        default="1",
        broker_name="min.insync.replicas",
        minimum=1,
        doc="Replicas that must have a record before `acks=all` is answered; at most as many as exist, which is one.",
    ),
    TopicSetting(
        name="preallocate",
        kind="boolean",
        default="false",
        broker_name="log.preallocate",
        refused="segments grow as they are written",
        doc="Reserve a segment's space when it is created.",
    ),
    TopicSetting(
        name="remote.log.copy.disable",
        kind="boolean",
        default="false",
        refused=_NO_TIERS,
        doc="Stop copying to tiered storage.",
    ),
    TopicSetting(
        name="remote.log.delete.on.disable",
        kind="boolean",
        default="false",
        refused=_NO_TIERS,
        doc="Delete from tiered storage when it is switched off.",
    ),
    TopicSetting(
        name="remote.storage.enable",
        kind="boolean",
        default="false",
        refused=_NO_TIERS,
        doc="Tiered storage.",
    ),
    TopicSetting(
        name="retention.bytes",
        kind="long",
        default="-1",
        broker_name="log.retention.bytes",
        minimum=-1,
        doc="A partition's size before old segments are dropped; -1 is no limit.",
    ),
    TopicSetting(
        name="retention.ms",
        kind="long",
        default="604800000",
        broker_name="log.retention.ms",
        minimum=-1,
        doc="A record's age before its segment is dropped; -1 is no limit.",
    ),
    TopicSetting(
        name="segment.bytes",
        kind="int",
        default="1073741824",
        broker_name="log.segment.bytes",
        minimum=1024,
        doc="A segment is closed at this size.",
    ),
    TopicSetting(
        name="segment.index.bytes",
        kind="int",
        default="10485760",
        broker_name="log.index.size.max.bytes",
        minimum=16,
        doc="A segment is closed when its index reaches this size.",
    ),
    TopicSetting(
        name="segment.jitter.ms",
        kind="long",
        default="0",
        broker_name="log.roll.jitter.ms",
        minimum=0,
        doc="Up to so much is taken from segment.ms, so that segments don't all close at once.",
    ),
    TopicSetting(
        name="segment.ms",
        kind="long",
        default="604800000",
        broker_name="log.roll.ms",
        minimum=1,
        doc="A segment is closed at this age, even without further appends.",
    ),
    TopicSetting(
        name="unclean.leader.election.enable",
        kind="boolean",
        default="false",
        broker_name="unclean.leader.election.enable",
        refused=_ONE_NODE,
        doc="Allow a replica that is behind to lead.",
    ),
    TopicSetting(
        name="millstream.archive.enable",
        kind="boolean",
        default="false",
        doc="Move expired segments to the archive directory instead of deleting them; they stay readable.",
    ),
    TopicSetting(
        name="millstream.archive.retention.ms",
        kind="long",
        default="-1",
        minimum=-1,
        doc="A record's age before its archived segment is deleted; -1 keeps it for good.",
    ),
)

TOPIC_SETTINGS_BY_NAME: dict[str, TopicSetting] = {setting.name: setting for setting in TOPIC_SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The values in force for one topic, typed; field names are the setting's with `_` for `.`."""

    cleanup_policy: tuple[str, ...]
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    millstream_archive_enable: bool
    millstream_archive_retention_ms: int

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


def check_topic_overrides(overrides: Mapping[str, str]) -> None:
    """Raise InvalidSetting for an unknown name, a wrong or refused value, or two that can't go together."""
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS_BY_NAME.get(name)
        if setting is None:
            raise InvalidSetting(name, text, "is not a topic setting")
        setting.parse(text)
    config = topic_config(overrides)
    if config.compacts and config.millstream_archive_enable:
        raise InvalidSetting(
            "millstream.archive.enable",
            "true",
            "can't go with cleanup.policy=compact: a key whose deletion was compacted away would come back "
            "from the archive",
        )


def topic_config(
    overrides: Mapping[str, str] | None = None, broker_defaults: Mapping[str, str] | None = None
) -> TopicConfig:
    """The configuration in force: overrides over the node's defaults over Kafka's."""
    overrides = overrides or {}
    broker_defaults = broker_defaults or {}
    values: dict[str, object] = {}
    for setting in TOPIC_SETTINGS:
        field = setting.name.replace(".", "_")
        if field not in TopicConfig.__dataclass_fields__:
            continue
        text = overrides.get(setting.name)
        if text is None:
            text = broker_defaults.get(setting.broker_name or "", setting.default)
        values[field] = setting.parse(text)
    return TopicConfig(**values)  # type: ignore[arg-type]  # parse gives each field's own type
