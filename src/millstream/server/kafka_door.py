"""The Kafka listener: who may connect, how long they may idle, what is counted.

Why: limits belong to the node, not to one connection.
Invariants: at most `connections.max` sessions; a session without traffic for `connections.max.idle.ms` is closed;
one that stalls in the middle of a request is dropped after STALL_SECONDS, so that it can't hold the byte budget.
"""

import asyncio
import logging
import socket
from time import monotonic

from millstream.broker.broker import Broker
from millstream.model.settings import Settings
from millstream.server.budget import ByteBudget
from millstream.server.session import KafkaSession

SWEEP_SECONDS = 5.0
STALL_SECONDS = 30.0
IDLE_MEMORY_SECONDS = 10.0

logger = logging.getLogger(__name__)


class KafkaDoor:
    def __init__(self, broker: Broker, sock: socket.socket) -> None:
        self.broker = broker
        self.settings: Settings = broker.settings
        self.budget = ByteBudget(broker.settings.queued_max_request_bytes)
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_refused = 0
        self.requests: dict[int, list[float]] = {}
        """[count, seconds] of each API key."""
        self.failed_requests: dict[int, int] = {}
        self.loop = asyncio.get_running_loop()
        self._socket = sock
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
        if len(self._sessions) >= self.settings.connections_max:
            self.connections_refused += 1
            if self.connections_refused in (1, 10, 100) or self.connections_refused % 1000 == 0:
                logger.warning(
                    "connections.max=%s reached; %s refused so far",
                    self.settings.connections_max,
                    self.connections_refused,
                )
            return False
        self._sessions.add(session)
        return True

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
            idle = now - session.last_active
            if session.request_began is not None and idle > STALL_SECONDS:
                session.abort(f"a request was begun and not finished for {STALL_SECONDS:g} s")
            elif idle > idle_max:
                session.close(f"idle for {idle_max:g} s")
            elif idle > IDLE_MEMORY_SECONDS:
                session.let_go_of_idle_memory()
        delay = min(SWEEP_SECONDS, max(idle_max / 2, 0.05))
        self._sweeper = self.loop.call_later(delay, self._sweep)
