"""What every handler works on: settings, topics, storage, groups, the node's identity.

Why: handlers are functions; this is the one value they share.
Invariants: made once by `node/`; touched by the event-loop thread only.
"""

import logging
import random
from concurrent.futures import Executor
from dataclasses import dataclass, field

from millstream.broker.catalog import Catalog, Topic
from millstream.broker.fetch_sessions import FetchSessions
from millstream.broker.group_keeper import GroupKeeper
from millstream.broker.storage import Storage
from millstream.log.errors import CorruptRange
from millstream.model.clock import Clock
from millstream.model.settings import Settings
from millstream.wire.errors import ErrorCode

DAMAGE_REPORTS_MAX = 10_000

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, kw_only=True)
class Broker:
    settings: Settings
    cluster_id: str
    clock: Clock
    storage: Storage
    catalog: Catalog
    groups: GroupKeeper
    randomness: random.Random
    workers: Executor
    """Threads for what would keep the event loop busy: recompression, checking large compressed batches."""
    fetch_sessions: FetchSessions = field(init=False)
    _reported: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots, self.randomness
        )

    def topic_of(self, key: str | bytes) -> Topic | None:
        """The topic with this name, or with this id."""
        if type(key) is str:
            return self.catalog.by_name.get(key)
        return self.catalog.by_id.get(key)  # type: ignore[arg-type]  # not a str, so the id

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode | None:
        """The error for a client whose idea of the leader is older or newer than this boot of the node."""
        if current_leader_epoch < 0 or current_leader_epoch == self.storage.leader_epoch:
            return None
        if current_leader_epoch < self.storage.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def report_damage(self, error: CorruptRange) -> None:
        """Say once for each damaged range where it is: a consumer only gets the code."""
        place = (str(error.partition), error.first_offset)
        if place not in self._reported and len(self._reported) < DAMAGE_REPORTS_MAX:
            self._reported.add(place)
            logger.error("%s", error)
