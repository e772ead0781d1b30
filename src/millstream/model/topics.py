"""Topics and their partitions by name.

Invariants: a name accepted by `check_topic_name` is safe as a directory name and legal in Kafka.
"""

import re
from typing import NamedTuple

from millstream.model.errors import InvalidTopicName

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
CATALOG_TOPIC = "__cluster_metadata"
"""Not a topic that clients see; but its log has this name's place on disk."""
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, CATALOG_TOPIC})


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicName unless Kafka would take this name."""
    if not name:
        raise InvalidTopicName(name, "is empty: give it at least one character")
    if name in (".", ".."):
        raise InvalidTopicName(name, "can't be '.' or '..'")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicName(name, f"is longer than {NAME_LENGTH_MAX} characters")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicName(name, "may hold only ASCII letters, digits, '.', '_' and '-'")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS
