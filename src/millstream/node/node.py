"""One node: a data directory, its topics, the doors to them.

Why: the order matters. A port is bound before anything is touched, so that a second node on the same port changes
nothing; the directory is locked before it is read; the doors open when everything behind them is ready, and close
first.
Invariants: the clean-shutdown marker is removed before the first append and written after the last sync; a failed
sync stops the node without it.
"""

import asyncio
import logging
import random
import socket
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from millstream.broker.broker import Broker
from millstream.broker.catalog import Catalog
from millstream.broker.group_keeper import GroupKeeper
from millstream.broker.storage import Storage
from millstream.console.http import HttpDoor
from millstream.coordination.coordinator import GroupCoordinator
from millstream.log.datadir import DOOMED_SUFFIX, DataDirectory
from millstream.log.files import OpenFiles
from millstream.log.flusher import Flusher
from millstream.model.clock import Clock, SystemClock
from millstream.model.errors import BadRequest, MillstreamError
from millstream.model.settings import Settings
from millstream.node.status import NodeStatus
from millstream.node.upkeep import Upkeep
from millstream.server.kafka_door import KafkaDoor

logger = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0005
"""How long a Python thread may keep the others waiting; the default of 5 ms would show in every p99."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    kafka: int = 9092
    amqp: int = 5672
    http: int = 8642


class PortTaken(BadRequest):
    def __init__(self, name: str, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"{name} port {host}:{port}: {reason}. Stop what uses it, or choose another with "
            f"--{name}-port (0 picks a free one)."
        )


class Node:
    def __init__(self, settings: Settings, *, data: Path, ports: Ports, clock: Clock | None = None) -> None:
        self.settings = settings
        self.data = data
        self._ports = ports
        self._clock = clock or SystemClock()
        self._sockets: dict[str, socket.socket] = {}
        self._directory: DataDirectory | None = None
        self._flusher: Flusher | None = None
        self._storage: Storage | None = None
        self._catalog: Catalog | None = None
        self._groups: GroupKeeper | None = None
        self._door: KafkaDoor | None = None
        self._http: HttpDoor | None = None
        self._upkeep: Upkeep | None = None
        self._stop_requested = asyncio.Event()
        self._failure: BaseException | None = None
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="millstream-worker")

    async def start(self) -> None:
        self._bind()
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        loop = asyncio.get_running_loop()
        self._directory = DataDirectory.open(self.data)
        self._flusher = Flusher(
            mode=self.settings.log_fsync,
            interval_ms=self.settings.log_fsync_interval_ms,
            schedule=loop.call_soon_threadsafe,
            on_failure=lambda error: self._fail(error),
        )
        archive = self.settings.log_dir_archive
        storage = Storage(
            data=self.data,
            archive=Path(archive) if archive else self.data / "archive",
            files=OpenFiles(self.settings.log_open_files_max),
            flusher=self._flusher,
            clock=self._clock,
            leader_epoch=self._directory.leader_epoch,
            was_clean=self._directory.was_clean,
            low_water_bytes=self.settings.log_disk_reserve_bytes,
            reserve=self._directory.reserve,
        )
        self._storage = storage
        broker = self._recover(storage, self._directory.cluster_id)
        self._door = KafkaDoor(broker, self._sockets["kafka"])
        await self._door.open()
        self._upkeep = Upkeep(broker)
        self._upkeep.start([*self._directory.doomed(), *doomed_in(storage.archive)])
        status = NodeStatus(broker, self._door, loop)
        self._http = HttpDoor(self._sockets["http"], status)
        self._http.start()

    def _recover(self, storage: Storage, cluster_id: str) -> Broker:
        storage.check_space()
        self._catalog = Catalog(storage, self.settings.topic_defaults)
        for path in self._catalog.recover():
            logger.warning("no topic is known for what is now in %s; it was set aside, not deleted", path)
        # The boot count may have been lost with its file; what clients are told never goes backwards.
        storage.leader_epoch = max(log.leader_epoch for log in self._catalog.logs())
        randomness = random.SystemRandom()
        coordinator = GroupCoordinator(self.settings, new_id=lambda: str(uuid.uuid4()))
        self._groups = GroupKeeper(
            settings=self.settings,
            catalog=self._catalog,
            storage=storage,
            clock=self._clock,
            coordinator=coordinator,
        )
        self._groups.recover()
        return Broker(
            settings=self.settings,
            cluster_id=cluster_id,
            clock=self._clock,
            storage=storage,
            catalog=self._catalog,
            groups=self._groups,
            randomness=randomness,
            workers=self._workers,
        )

    def _bind(self) -> None:
        for name in ("kafka", "amqp", "http"):
            port: int = getattr(self._ports, name)
            try:
                family = socket.getaddrinfo(self.settings.host, port, type=socket.SOCK_STREAM)[0][0]
                sock = socket.socket(family, socket.SOCK_STREAM)
                self._sockets[name] = sock
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((self.settings.host, port))
                sock.setblocking(False)
            except OSError as error:
                raise PortTaken(name, self.settings.host, port, error.strerror or str(error)) from None
        self._sockets["http"].listen(128)

    def address(self, name: str) -> str:
        host, port = self._sockets[name].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def ready_line(self) -> str:
        doors = " ".join(f"{name}={self.address(name)}" for name in ("kafka", "amqp", "http"))
        return f"millstream ready {doors}"

    def request_stop(self) -> None:
        self._stop_requested.set()

    def _fail(self, error: OSError) -> None:
        """A sync failed: what was written may be gone, so nothing more is acknowledged."""
        logger.critical("stopping: the disk could not keep what was written: %s", error)
        self._failure = error
        if self._storage is not None:
            self._storage.fail(error)
        self._stop_requested.set()

    async def serve_until_stopped(self) -> int:
        await self._stop_requested.wait()
        await self.stop()
        return 0 if self._failure is None else 1

    async def stop(self, *, clean: bool = True) -> None:
        """Close the doors, then what is behind them. `clean=False` leaves the directory as a crash would.

        After a failed sync it is left so in any case.
        """
        if self._http is not None:
            # In a thread: a request in work may be waiting for this very loop.
            await asyncio.to_thread(self._http.stop)
        if self._door is not None:
            await self._door.close()
        if self._upkeep is not None:
            await self._upkeep.stop()
        if self._groups is not None:
            self._groups.stop()
        self._workers.shutdown(wait=True)
        if self._flusher is not None:
            self._flusher.close()
        if clean and self._failure is None:
            self._close_logs()
        if self._directory is not None:
            self._directory.close()
        for sock in self._sockets.values():
            sock.close()

    def _close_logs(self) -> None:
        """Leave everything so that the next start has to look for nothing."""
        if self._catalog is None or self._directory is None or self._storage is None:
            return
        if self._storage.is_full:
            self._storage.reserve.release()
        try:
            for log in self._catalog.logs():
                log.close()
            self._directory.mark_clean()
        except (OSError, MillstreamError) as error:
            # Nothing acknowledged is at stake, only the time that the next start takes.
            logger.error("stopped without a clean end, so the next start will check every log: %s", error)
            self._failure = error


def doomed_in(archive: Path) -> list[Path]:
    """What a stopped node had no time to remove from an archive that lies elsewhere."""
    return [path for path in archive.glob(f"*{DOOMED_SUFFIX}") if path.is_dir()]
