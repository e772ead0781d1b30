"""One member of a classic group.

Why: a member is the part of a group that a client owns: its timeouts, what it can speak, what it was given.
Invariants: `protocols` is ordered by the member's preference. A member waits for at most one join and one
sync. A member that waits is alive whatever its session says, unless it is new: a new one has no id to send
heartbeats with, so it is given `NEW_MEMBER_TIMEOUT_MS` in all.
"""

from dataclasses import dataclass
from typing import Any

from millstream.coordination.decision import Waiting
from millstream.coordination.timers import Timer

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000

Protocols = dict[str, bytes]
"""Names of the protocols a member speaks, each with what it says in it, in order of preference."""


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    session: Timer
    assignment: bytes = b""
    join: Waiting | None = None
    sync: Waiting | None = None
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """No heartbeat is expected while it waits for us."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def speaks_the_same(self, protocols: Protocols) -> bool:
        """Whether these are its protocols, in its order, saying what it said before."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    def vote(self, candidates: set[str]) -> str:
        """The first of its protocols that all members speak; there always is one."""
        return next(name for name in self.protocols if name in candidates)

    def described(self, protocol_name: str | None) -> dict[str, Any]:
        return {
            "member_id": self.member_id,
            "group_instance_id": self.group_instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "member_metadata": b"" if protocol_name is None else self.protocols.get(protocol_name, b""),
            "member_assignment": self.assignment,
        }


def protocols_of(request: Any) -> Protocols:
    """The protocols of a JoinGroup; a name given twice counts as it came first."""
    protocols: Protocols = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, bytes(protocol.metadata))
    return protocols


def protocols_size(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols.items())
