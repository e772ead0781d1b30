"""HTTP connections with bounds.

Why: sockets left open without a request must not use up the descriptors that the log and the Kafka door need.
Invariants: at most `CONNECTIONS_MAX` at once, more are dropped; a request whose head is not complete within
`REQUEST_SECONDS` ends its connection.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 100
REQUEST_SECONDS = 10.0


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a bound on connections and on the time a request takes to arrive."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_request()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._await_request()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._got_request()

    def _await_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _got_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
