"""Bytes on disk of each partition, and the space left beside them (DescribeLogDirs).

Why: the disk outlook needs bytes, and the client library can't ask for them.
Invariants: sizes count one replica of a partition, the largest; None means "can't be known here", never 0:
an old broker, TLS or SASL, or no permission.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from millstream.client.cluster import BrokerAddress, describe_cluster
from millstream.client.raw import Cursor, ProtocolBroken, exchange
from millstream.client.session import AdminSession
from millstream.model.topics import TopicPartition

_DESCRIBE_LOG_DIRS = 35
_VERSION = 4  # the first that tells the volume's free space; Kafka has it since 3.3
_REQUEST_ALL = b"\0\0"  # a null array of topics, no tags


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    free_bytes: int | None = None
    """Of the fullest volume that holds logs; None when the broker doesn't say."""


def disk_use(session: AdminSession, topics: Collection[str] | None = None) -> DiskUse | None:
    """Sizes of the given topics' partitions (all if None); None when no broker tells."""
    if not session.connection.is_plaintext:
        return None
    sizes: dict[TopicPartition, int] = {}
    free: list[int] = []
    for broker in describe_cluster(session).brokers:
        try:
            found = _ask(broker, session.connection.timeout_s)
        except (OSError, ProtocolBroken):
            return None
        for partition, size in found.partitions.items():
            if topics is None or partition.topic in topics:
                sizes[partition] = max(size, sizes.get(partition, 0))
        if found.free_bytes is not None:
            free.append(found.free_bytes)
    return DiskUse(partitions=sizes, free_bytes=min(free, default=None))


def _ask(broker: BrokerAddress, timeout_s: float) -> DiskUse:
    body = exchange(
        broker.host,
        broker.port,
        api_key=_DESCRIBE_LOG_DIRS,
        version=_VERSION,
        body=_REQUEST_ALL,
        flexible=True,
        timeout_s=timeout_s,
    )
    return parse_log_dirs(body, f"{broker.host}:{broker.port}")


def parse_log_dirs(body: bytes, address: str) -> DiskUse:
    """DescribeLogDirs response, version 4. Raises ProtocolBroken."""
    cursor = Cursor(body, address)
    cursor.int32()  # throttle time
    error_code = cursor.int16()
    if error_code:
        raise ProtocolBroken(address, f"error {error_code} for DescribeLogDirs")
    sizes: dict[TopicPartition, int] = {}
    free: list[int] = []
    for _ in range(cursor.count()):
        cursor.int16()  # error code of this directory; an offline one lists no topics
        cursor.string()
        _parse_topics(cursor, sizes)
        cursor.int64()  # total bytes of the volume
        usable = cursor.int64()
        if usable >= 0:
            free.append(usable)
        cursor.skip_tags()
    return DiskUse(partitions=sizes, free_bytes=min(free, default=None))


def _parse_topics(cursor: Cursor, sizes: dict[TopicPartition, int]) -> None:
    for _ in range(cursor.count()):
        topic = cursor.string()
        for _ in range(cursor.count()):
            partition = cursor.int32()
            size = cursor.int64()
            cursor.int64()  # offset lag
            is_future = cursor.boolean()
            cursor.skip_tags()
            if not is_future:
                key = TopicPartition(topic, partition)
                sizes[key] = max(size, sizes.get(key, 0))
        cursor.skip_tags()
