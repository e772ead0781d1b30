"""What each HTTP path answers.

Why: a load balancer asks whether the node lives and serves, Prometheus asks for numbers.
Invariants: every answer but the metrics is JSON, refusals too; nothing here changes the node. Endpoints are
plain functions, which run on worker threads, because asking the node may take a while.
"""

import functools
import ipaddress
import logging
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream import __version__
from millstream.console import prometheus
from millstream.console.status import StatusSource

Endpoint = Callable[[Request], Response]

logger = logging.getLogger(__name__)


def make_app(status: StatusSource, *, is_loopback: bool) -> Starlette:
    """The application. `is_loopback`: it listens for this machine only, and only by that name."""

    def index(request: Request) -> Response:
        links = {"live": "/livez", "ready": "/readyz", "metrics": "/metrics"}
        return JSONResponse({"name": "millstream", "version": __version__, "links": links})

    def livez(request: Request) -> Response:
        return _verdict("live", status.live(), "the node does not answer: restart it")

    def readyz(request: Request) -> Response:
        is_ready, reason = status.ready()
        return _verdict("ready", is_ready, reason)

    def metrics(request: Request) -> Response:
        body, content_type = prometheus.render(status.metrics(), request.headers.get("accept", ""))
        return Response(body, media_type=content_type)

    return Starlette(
        routes=[
            Route("/", index),
            Route("/livez", _unless_silent(livez)),
            Route("/readyz", _unless_silent(readyz)),
            Route("/metrics", _unless_silent(metrics)),
        ],
        exception_handlers={HTTPException: _refused},
        middleware=[Middleware(LoopbackNames)] if is_loopback else [],
    )


class LoopbackNames:
    """Refuses requests for another host's name.

    A page in a browser can make any name resolve to 127.0.0.1 and then read what is served there. What it
    can't change is the Host header, which still has that name.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if not all(is_loopback_name(host) for host in hosts):
                reason = f"{hosts[0]!r} is not a name of this machine: use localhost or 127.0.0.1"
                await JSONResponse({"error": reason}, status_code=421)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_loopback_name(host: str) -> bool:
    """Whether a Host header (a name or an address, perhaps with a port) means this machine."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _verdict(word: str, is_good: bool, reason: str) -> Response:
    if is_good:
        return JSONResponse({"status": word})
    return JSONResponse({"status": f"not {word}", "reason": reason}, status_code=503)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = f"{request.method} {request.url.path}: {error.detail.lower()}"
    return JSONResponse({"error": reason}, status_code=error.status_code, headers=error.headers)


def _unless_silent(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with an answer for when the node gives none in time or is stopping."""

    @functools.wraps(endpoint)
    def answer(request: Request) -> Response:
        try:
            return endpoint(request)
        except Exception as error:
            logger.warning("%s failed: %r", request.url.path, error)
            return JSONResponse({"error": f"the node did not answer: {error!r}"}, status_code=503)

    return answer
