"""confluent-kafka's admin classes, with the names a type checker can see.

Why: `confluent_kafka.admin` re-exports them without saying so, and leaves some untyped; here is the one place
that makes up for it.
"""

from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
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
    "NewPartitions",
    "NewTopic",
    "ResourceType",
    "at_timestamp",
]

EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
MAX_TIMESTAMP: Any = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]


def at_timestamp(timestamp_ms: int) -> Any:
    return OffsetSpec.for_timestamp(timestamp_ms)
