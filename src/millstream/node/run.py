"""A node in the foreground: what `millstream up` does.

Invariants: exit code 0 only after a clean stop; one line on stdout, when it serves.
"""

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from millstream.model.settings import Settings
from millstream.node.node import Node, Ports

DESCRIPTORS_MAX = 65_536

logger = logging.getLogger(__name__)


def run_node(
    settings: Settings,
    *,
    data: Path,
    kafka_port: int,
    amqp_port: int,
    http_port: int,
    announce: Callable[[str], None],
) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code; raises MillstreamError when it can't start."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    _take_descriptors()
    ports = Ports(kafka=kafka_port, amqp=amqp_port, http=http_port)
    node = Node(settings, data=data, ports=ports)

    async def serve() -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, node.request_stop)
        try:
            await node.start()
            _calm_the_collector()
            announce(node.ready_line())
        except BaseException:
            await node.stop(clean=False)
            raise
        return await node.serve_until_stopped()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(serve())


def _take_descriptors() -> None:
    """As many as we may have: the usual soft limit is a tenth of what connections.max allows."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if most == resource.RLIM_INFINITY else min(most, DESCRIPTORS_MAX)
    if limit != resource.RLIM_INFINITY and limit < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _calm_the_collector() -> None:
    """What exists now stays; what requests make is freed by counting. Looking for cycles rarely is enough."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it can be had; it halves the cost of a small request."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
