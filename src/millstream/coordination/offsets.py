"""How far a group has read: its committed offsets, and when they are forgotten.

Why: a consumer that comes back goes on where its group stopped; one that never does must not be kept for
ever.
Invariants: only `apply` of a stored record calls `put` and `remove`; a topic without offsets is not listed.
"""

from collections.abc import Callable, Iterator

from millstream.coordination.group_records import CommittedOffset


class GroupOffsets:
    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self._topics.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self) -> dict[str, dict[int, CommittedOffset]]:
        return self._topics

    def partitions(self, topic: str) -> list[int]:
        return list(self._topics.get(topic, ()))

    def put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        self._topics.setdefault(topic, {})[partition] = committed

    def remove(self, topic: str, partition: int) -> None:
        partitions = self._topics.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self._topics[topic]

    def expired(
        self, *, since_ms: Callable[[CommittedOffset], int], retention_ms: int, now_ms: int
    ) -> Iterator[tuple[str, int]]:
        """Offsets whose retention, counted from `since_ms`, is over; a client's own retention goes first."""
        for topic, partition, committed in self:
            if committed.expire_ms is not None:
                is_over = now_ms >= committed.expire_ms
            else:
                is_over = now_ms - since_ms(committed) >= retention_ms
            if is_over:
                yield topic, partition
