"""Fetch sessions (KIP-227): a consumer of many partitions names them once, then only what changed.

Why: a consumer of a thousand idle partitions would otherwise send and receive them all, twice a second.
Invariants: epochs of a session go 0, 1, 2 … and wrap to 1; at most `slots` sessions are remembered, the one used
longest ago goes first; a session that is gone makes the client begin anew.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

PartitionKey = tuple[str | bytes, int]
"""(topic name, or id from version 13, and partition), as the client speaks of it."""


@dataclass(slots=True)
class FetchPosition:
    """What a client wants of one partition, and what it was last told about it."""

    offset: int
    size_max: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    told_high_watermark: int = -2
    told_start_offset: int = -2
    told_error: int = 0


@dataclass(slots=True, eq=False)
class FetchSession:
    id: int
    epoch: int = 1
    positions: dict[PartitionKey, FetchPosition] = field(default_factory=dict)

    def update(
        self, wanted: Iterable[tuple[PartitionKey, FetchPosition]], forgotten: Iterable[PartitionKey]
    ) -> None:
        for key in forgotten:
            self.positions.pop(key, None)
        for key, position in wanted:
            known = self.positions.get(key)
            if known is None:
                self.positions[key] = position
            else:
                known.offset = position.offset
                known.size_max = position.size_max
                known.current_leader_epoch = position.current_leader_epoch
                known.last_fetched_epoch = position.last_fetched_epoch

    def served(self, key: PartitionKey) -> None:
        """Put a partition that got data behind the others, so that none starves."""
        position = self.positions.pop(key)
        self.positions[key] = position

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchSessions:
    def __init__(self, slots: int, randomness: random.Random) -> None:
        self._slots = slots
        self._random = randomness
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self) -> FetchSession | None:
        """A new session, or None when none are kept."""
        if self._slots == 0:
            return None
        while len(self._sessions) >= self._slots:
            self._sessions.popitem(last=False)
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, _EPOCH_MAX)
        session = self._sessions[session_id] = FetchSession(session_id)
        return session

    def find(self, session_id: int) -> FetchSession | None:
        session = self._sessions.get(session_id)
        if session is not None:
            self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)
