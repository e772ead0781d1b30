"""The two sides of a comparison, running.

Why: a figure counts only beside the peer's, measured in the same run on the same machine.
Invariants: both listen on loopback and write to the same file system; both get the same topics, 4 partitions
each; what differs is how each is told to sync, or not to.
"""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.support.kafka_peer import running_kafka
from tests.support.millstream_process import running_millstream
from tests.support.raw import RawConnection
from tests.support.raw_requests import RawRequests

PARTITIONS = 4
KAFKA_JVM = ("-Xmx1G",)
QUIET = 2
"""librdkafka's log level: a broker that is stopped at the end of a run is no news."""
_TIMEOUT_S = 60

Kind = Literal["kafka", "millstream"]


@dataclass(slots=True, kw_only=True)
class Peer:
    """One running broker. `prepared` is where a question keeps topics between rounds."""

    kind: Kind
    bootstrap_servers: str
    pid: int
    fsync: bool
    admin: AdminClient
    prepared: dict[str, str] = field(default_factory=dict)

    def new_topic(self) -> str:
        name = f"bench-{uuid.uuid4().hex[:12]}"
        config = {"file.delete.delay.ms": "1000"}
        if self.fsync and self.kind == "kafka":
            config["flush.messages"] = "1"
        topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=config)
        self.admin.create_topics([topic])[name].result(timeout=_TIMEOUT_S)
        with RawConnection(self.bootstrap_servers) as connection:
            RawRequests(connection).wait_until_served(name, PARTITIONS)
        return name

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(timeout=_TIMEOUT_S)


@contextlib.contextmanager
def running_peer(kind: Kind, *, fsync: bool) -> Iterator[Peer]:
    """A fresh broker; with `fsync`, one that syncs before it acknowledges."""
    if kind == "kafka":
        with running_kafka(jvm_options=KAFKA_JVM) as kafka:
            yield _peer(kind, kafka.bootstrap_servers, kafka.pid, fsync)
    else:
        with running_millstream({"log.fsync": "always" if fsync else "os"}) as node:
            yield _peer(kind, node.bootstrap_servers, node.pid, fsync)


def _peer(kind: Kind, address: str, pid: int, fsync: bool) -> Peer:
    admin = AdminClient({"bootstrap.servers": address, "log_level": QUIET})
    return Peer(kind=kind, bootstrap_servers=address, pid=pid, fsync=fsync, admin=admin)
