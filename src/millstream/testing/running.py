"""A real node on a thread of the calling process.

Why: a test wants a broker as cheaply as it wants a temporary file: no Docker, no Java, no port to choose.
Invariants: it serves when `running_node` returns it and is gone, data included, when the block ends; given a data
directory, that is kept.
"""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from millstream.model.settings import settings_from
from millstream.node.node import Node, Ports
from millstream.node.run import loop_factory


class RunningNode:
    """A node that serves. `bootstrap_servers`, `amqp_url` and `http_url` are for clients."""

    def __init__(self, data: Path, settings: Mapping[str, object]) -> None:
        self.data = data
        self._settings = dict(settings)
        self._ports = Ports(kafka=0, amqp=0, http=0)
        self._node: Node | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: BaseException | None = None
        self._exit_code: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self._running.address("kafka")

    @property
    def amqp_url(self) -> str:
        return f"amqp://guest:guest@{self._running.address('amqp')}/"

    @property
    def http_url(self) -> str:
        return f"http://{self._running.address('http')}"

    @property
    def _running(self) -> Node:
        if self._node is None:
            raise RuntimeError("the node is not running: use it inside `with running_node() as node:`")
        return self._node

    def start(self) -> None:
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, args=(started,), name="millstream-node", daemon=True
        )
        self._thread.start()
        started.wait()
        if self._problem is not None:
            self._thread.join()
            raise self._problem

    def stop(self) -> None:
        """Stop cleanly; the ports stay reserved for `restart`."""
        if self._node is None or self._loop is None or self._thread is None:
            return
        self._keep_ports()
        self._loop.call_soon_threadsafe(self._node.request_stop)
        self._thread.join()
        self._node = None

    def restart(self) -> None:
        """Stop and start again on the same data and ports, as a process that was restarted."""
        self.stop()
        self.start()

    def _keep_ports(self) -> None:
        numbers = {
            name: int(self._running.address(name).rpartition(":")[2]) for name in ("kafka", "amqp", "http")
        }
        self._ports = Ports(**numbers)

    def _serve(self, started: threading.Event) -> None:
        async def serve() -> int:
            self._loop = asyncio.get_running_loop()
            node = Node(settings_from(self._settings), data=self.data, ports=self._ports)
            try:
                await node.start()
            except BaseException:
                await node.stop(clean=False)
                raise
            self._node = node
            started.set()
            return await node.serve_until_stopped()

        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                self._exit_code = runner.run(serve())
        except BaseException as error:
            self._problem = error
        finally:
            started.set()


@contextmanager
def running_node(
    data: Path | str | None = None, settings: Mapping[str, object] | None = None
) -> Iterator[RunningNode]:
    """A node for the length of a `with` block, on free ports.

    `settings` are those of `millstream up --set`, by name. Without `data`, a temporary directory is used and
    removed; and since no power cut is survived by it anyway, `log.fsync` is `os` unless you set it.
    """
    temporary = None
    values = dict(settings or {})
    if data is None:
        temporary = Path(tempfile.mkdtemp(prefix="millstream-"))
        values.setdefault("log.fsync", "os")
    node = RunningNode(temporary or Path(str(data)), values)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
