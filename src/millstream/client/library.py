"""The parts of confluent-kafka whose types its stubs leave out.

Why: `mypy --strict` refuses names that a package does not re-export, and calls without annotations; the
exceptions to that stand here, once.
Invariants: nothing here has behaviour.
"""

from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not marked as exported
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "NewPartitions",
    "NewTopic",
    "ResourceType",
    "at_timestamp",
]

_spec: Any = OffsetSpec
EARLIEST: Any = _spec.earliest()
LATEST: Any = _spec.latest()
MAX_TIMESTAMP: Any = _spec.max_timestamp()


def at_timestamp(timestamp_ms: int) -> Any:
    return _spec.for_timestamp(timestamp_ms)
