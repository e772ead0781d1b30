"""The data directory as a whole: who owns it, who it is, and whether it was left in order.

    lock        held by the running node
    node.json   cluster id and boot count, and a copy of it beside
    clean       there only between a clean stop and the next start
    reserve     space to fall back on when the disk is full
    topics/     one directory a partition
    archive/    expired segments of topics that keep them

Why: two nodes on one directory would destroy it, and a node must know whether the last one had time to finish.
Invariants: `clean` is written last and removed first; the boot count is durable before anything is written
under it, and never repeats, for it is the leader epoch.
"""

import base64
import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from crc32c import crc32c

from millstream.log.errors import DirectoryLocked, DirectoryUnusable
from millstream.log.files import replace_file, sync_directory

CLEAN = "clean"
NODE = ("node.json", "node.copy.json")
RESERVE = "reserve"
RESERVE_BYTES = 1 << 20
TOPICS = "topics"
ARCHIVE = "archive"
DOOMED_SUFFIX = ".deleted"
"""A directory of a deleted partition: no partition's name ends so."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    cluster_id: str
    boot_count: int


def new_cluster_id() -> str:
    """22 characters, as Kafka's."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class DataDirectory:
    """Open one for as long as the node runs. Raises DirectoryLocked, DirectoryUnusable."""

    def __init__(
        self, path: Path, lock_fd: int, *, was_clean: bool, identity: NodeIdentity, reserve: "SpaceReserve"
    ) -> None:
        """Use `open`."""
        self.path = path
        self._lock_fd = lock_fd
        self.reserve = reserve
        self.was_clean = was_clean
        self.identity = identity

    @classmethod
    def open(cls, path: Path, *, make_cluster_id: Callable[[], str] = new_cluster_id) -> "DataDirectory":
        """Take possession of the directory, which is made if there is none, and count a boot."""
        lock_fd = -1
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock_fd = _lock(path / "lock")
            reserve = SpaceReserve(path / RESERVE, RESERVE_BYTES)
            was_clean = _remove_marker(path)
            identity = reserve.spend(lambda: _boot(path, make_cluster_id))
            (path / TOPICS).mkdir(exist_ok=True)
            (path / ARCHIVE).mkdir(exist_ok=True)
            reserve.hold()
        except OSError as error:
            if lock_fd >= 0:
                os.close(lock_fd)
            reason = f"{error.strerror}. Check that it is a directory you may write to, with space left"
            raise DirectoryUnusable(path, reason) from error
        return cls(path, lock_fd, was_clean=was_clean, identity=identity, reserve=reserve)

    @property
    def topics(self) -> Path:
        return self.path / TOPICS

    @property
    def archive(self) -> Path:
        return self.path / ARCHIVE

    @property
    def cluster_id(self) -> str:
        return self.identity.cluster_id

    @property
    def leader_epoch(self) -> int:
        return self.identity.boot_count

    def mark_clean(self) -> None:
        """Only after every log was closed cleanly: the next start will scan nothing."""
        count = str(self.identity.boot_count).encode()
        self.reserve.spend(lambda: replace_file(str(self.path / CLEAN), count, sync=True))

    def close(self) -> None:
        """Let go of the directory."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def doomed(self) -> list[Path]:
        """Directories of partitions that were being deleted when the node stopped."""
        return [
            path
            for root in (self.topics, self.archive)
            for path in root.iterdir()
            if path.name.endswith(DOOMED_SUFFIX)
        ]


class SpaceReserve:
    """A little room on the disk that is ours.

    Producers are refused long before a disk is full, but others may fill it; a node must then still be able
    to stop and to start, so that what it holds can be read and deleted.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self._size_bytes = size_bytes

    @property
    def is_held(self) -> bool:
        return self._path.exists()

    def hold(self) -> bool:
        """Take the room, if it is there; returns whether it is held now."""
        if self.is_held or not self._size_bytes:
            return self.is_held
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _allocate(fd, self._size_bytes)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        finally:
            os.close(fd)
        return True

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def spend(self, write: Callable[[], T]) -> T:
        """Write something small that has to be written; the reserve goes if there is no room without it."""
        try:
            return write()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self.is_held:
                raise
        self.release()
        return write()


def _allocate(fd: int, size_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size_bytes)
        return
    zeros = bytes(1 << 20)
    for start in range(0, size_bytes, len(zeros)):
        os.pwrite(fd, zeros[: size_bytes - start], start)


def remove_tree(path: Path) -> None:
    """Unlink everything below `path`; for the janitor's thread."""
    shutil.rmtree(path, ignore_errors=True)


def _remove_marker(path: Path) -> bool:
    try:
        (path / CLEAN).unlink()
    except FileNotFoundError:
        return False
    sync_directory(str(path))
    return True


def _boot(path: Path, make_cluster_id: Callable[[], str]) -> NodeIdentity:
    """Count a boot. Two files hold the count: epochs must not go backwards because one of them is damaged."""
    found = [identity for name in NODE if (identity := _read_identity(path / name)) is not None]
    known = max(found, key=lambda identity: identity.boot_count, default=None)
    if known is None:
        known = NodeIdentity(cluster_id=make_cluster_id(), boot_count=0)
    identity = NodeIdentity(cluster_id=known.cluster_id, boot_count=known.boot_count + 1)
    body = {"cluster_id": identity.cluster_id, "boot_count": identity.boot_count}
    content = json.dumps(body | {"crc32c": f"{crc32c(json.dumps(body).encode()):08x}"})
    for name in NODE:
        replace_file(str(path / name), content.encode() + b"\n", sync=True)
    return identity


def _read_identity(path: Path) -> NodeIdentity | None:
    try:
        body = json.loads(path.read_bytes())
        crc = body.pop("crc32c")
        if crc != f"{crc32c(json.dumps(body).encode()):08x}":
            return None
        return NodeIdentity(cluster_id=str(body["cluster_id"]), boot_count=int(body["boot_count"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _lock(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise DirectoryLocked(path.parent, owner) from None
    with suppress(OSError):  # only for the message of whoever finds it locked
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
