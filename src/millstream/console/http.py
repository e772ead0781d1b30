"""Listens for HTTP on a thread of its own.

Why: the event loop that serves Kafka clients does nothing else. The web server is imported when the first
connection comes: it takes 0.2 s and 12 MB, which a node that nobody asks should not spend.
Invariants: the socket stays the caller's, who closes it; after `stop` no code of this room runs, or it is
about to end by itself.
"""

import asyncio
import ipaddress
import logging
import selectors
import socket
import threading
from typing import TYPE_CHECKING

from millstream.console.status import StatusSource

if TYPE_CHECKING:
    import uvicorn

logger = logging.getLogger(__name__)

STOP_SECONDS_MAX = 3.0
_GRACE_SECONDS = 1


class HttpDoor:
    """Health and metrics over HTTP. `sock` is bound and listening already."""

    def __init__(self, sock: socket.socket, status: StatusSource) -> None:
        self._sock = sock
        self._status = status
        self._wake_up, self._wake_up_call = socket.socketpair()
        self._is_stopping = False
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-http", daemon=True)

    def start(self) -> None:
        """Return at once; connections are answered from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End open connections and the thread, within STOP_SECONDS_MAX. A request in work may be cut off."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._wake_up_call.send(b"\0")
        if self._server is not None:
            self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS_MAX)
        self._wake_up.close()
        self._wake_up_call.close()

    def _run(self) -> None:
        try:
            self._await_first_connection()
            if not self._is_stopping:
                self._serve()
        except Exception:
            logger.exception("HTTP is not served any more; Kafka clients are not affected")

    def _await_first_connection(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            selector.register(self._wake_up, selectors.EVENT_READ)
            selector.select()

    def _serve(self) -> None:
        import uvicorn  # see the docstring

        from millstream.console.app import make_app
        from millstream.console.protocol import BoundedProtocol

        config = uvicorn.Config(
            make_app(self._status, is_loopback=_is_loopback(self._sock)),
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("x-content-type-options", "nosniff")],
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        if self._is_stopping:  # asked for before there was a server to tell
            self._server.should_exit = True
        # The server closes the socket it is given; the caller's stays open.
        asyncio.run(self._server.serve(sockets=[self._sock.dup()]))


def _is_loopback(sock: socket.socket) -> bool:
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback
