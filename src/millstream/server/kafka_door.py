"""The Kafka listener: who may connect, how long they may idle, what is counted.

Why: limits belong to the node, not to one connection.
Invariants: at most `connections.max` sessions; a session without traffic for `connections.max.idle.ms` is closed;
one that stalls in the middle of a request is dropped after STALL_SECONDS, so that it can't hold the byte budget;
when all clients together leave too much unread, each may leave only little.
"""

import asyncio
import logging
import resource
import socket
import sys
from time import monotonic

from millstream.broker.broker import Broker
from millstream.model.settings import Settings
from millstream.server.budget import ByteBudget
from millstream.server.session import KafkaSession

SWEEP_SECONDS = 5.0
CONTENDED_SWEEP_SECONDS = 0.2
STALL_SECONDS = 30.0
IDLE_MEMORY_SECONDS = 10.0

DESCRIPTORS_KEPT_MIN = 64
"""Descriptors that clients can't have: the log needs some, and a node without any can't even say so."""

UNSENT_MAX = 512 << 20
"""Unsent bytes of all connections, above which they are scarce."""

SCARCE_OUTPUT_MAX = 256 << 10
"""Unsent bytes of one connection, while they are."""

RECOUNT_SECONDS = 0.1

logger = logging.getLogger(__name__)


class KafkaDoor:
    def __init__(self, broker: Broker, sock: socket.socket) -> None:
        self.broker = broker
        self.settings: Settings = broker.settings
        self.budget = ByteBudget(broker.settings.queued_max_request_bytes)
        self.bytes_in = 0
        self.bytes_out = 0
        self.unsent = 0
        """Unsent bytes of all connections, as last counted."""
        self._recounted = 0.0
        self.connections_refused = 0
        self.requests: dict[int, list[float]] = {}
        """[count, seconds] of each API key."""
        self.failed_requests: dict[int, int] = {}
        self.loop = asyncio.get_running_loop()
        self._socket = sock
        self._connections_max = min(broker.settings.connections_max, _descriptors_for_clients())
        self._sessions: set[KafkaSession] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def connection_count(self) -> int:
        return len(self._sessions)

    @property
    def address(self) -> tuple[str, int]:
        name = self._socket.getsockname()
        return str(name[0]), int(name[1])

    def now(self) -> float:
        return monotonic()

    async def open(self) -> None:
        self._server = await self.loop.create_server(
            lambda: KafkaSession(self), sock=self._socket, backlog=1024
        )
        self._sweep()

    async def close(self) -> None:
        """Stop accepting, then close every session once its answers are sent."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for session in list(self._sessions):
            session.close("the node is stopping")
        for _ in range(50):
            if not self._sessions:
                return
            await asyncio.sleep(0.01)
        for session in list(self._sessions):
            session.abort("the node is stopping")

    def admit(self, session: KafkaSession) -> bool:
        if len(self._sessions) >= self._connections_max:
            self.connections_refused += 1
            if self.connections_refused in (1, 10, 100) or self.connections_refused % 1000 == 0:
                logger.warning("%s; %s refused so far", self._limit_reached(), self.connections_refused)
            return False
        self._sessions.add(session)
        return True

    def _limit_reached(self) -> str:
        if self._connections_max < self.settings.connections_max:
            return f"{self._connections_max} connections are all that `ulimit -n` leaves room for"
        return f"connections.max={self._connections_max} reached"

    def output_max(self) -> int:
        """Bytes that one connection may owe its client."""
        usual = self.settings.connection_output_max_bytes
        if self.unsent < UNSENT_MAX:
            return usual
        if self.now() - self._recounted > RECOUNT_SECONDS:
            for session in self._sessions:
                session.count_unsent()
            self._recounted = self.now()
        return usual if self.unsent < UNSENT_MAX else min(usual, SCARCE_OUTPUT_MAX)

    def dismiss(self, session: KafkaSession) -> None:
        self._sessions.discard(session)

    def count_request(self, api_key: int, seconds: float) -> None:
        counted = self.requests.get(api_key)
        if counted is None:
            self.requests[api_key] = [1, seconds]
        else:
            counted[0] += 1
            counted[1] += seconds

    def _sweep(self) -> None:
        now = self.now()
        idle_max = self.settings.connections_max_idle_ms / 1000
        for session in list(self._sessions):
            unsent = session.unsent
            if unsent and session.count_unsent() < unsent:
                session.last_active = now  # it reads, if slowly
            self._look_at(session, now, idle_max)
        delay = min(SWEEP_SECONDS, max(idle_max / 2, 0.05))
        if self.budget.is_contended:
            self._make_room(now)
            delay = min(delay, CONTENDED_SWEEP_SECONDS)
        self._sweeper = self.loop.call_later(delay, self._sweep)

    def _look_at(self, session: KafkaSession, now: float, idle_max: float) -> None:
        idle = now - session.last_active
        if session.request_began is not None and not session.is_awaiting_budget and idle > STALL_SECONDS:
            session.abort(f"a request was begun and not finished for {STALL_SECONDS:g} s")
        elif session.is_closing or (session.unsent and idle > idle_max):
            if idle > STALL_SECONDS:
                session.abort("the client does not read what it was sent")
        elif idle > idle_max:
            session.close(f"idle for {idle_max:g} s")
        else:
            if idle > IDLE_MEMORY_SECONDS:
                session.let_go_of_idle_memory()
            session.go_on()

    def _make_room(self, now: float) -> None:
        """Of the requests that are long in coming the largest makes way, for others wait for its room.

        It may be trickling in; or all that have some room wait for more, and would do so for ever.
        """
        slow = [
            session
            for session in self._sessions
            if session.request_began is not None and now - session.request_began > STALL_SECONDS
        ]
        largest = max(slow, key=lambda session: session.budget_taken, default=None)
        if largest is not None and largest.budget_taken:
            largest.abort(
                f"a request took more than {STALL_SECONDS:g} s to come, while others wait for its room"
            )


def _descriptors_for_clients() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(1, limit - max(DESCRIPTORS_KEPT_MIN, limit // 4))
