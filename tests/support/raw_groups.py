"""A consumer group's member that does only what it is told.

Why: real clients rejoin, heartbeat and retry by themselves; the group protocol's rules show only without that.
Invariants: nothing is sent unasked; a join or sync that the group holds back is sent and received apart.
"""

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from tests.support.raw import RawConnection
from tests.support.waiting import eventually

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = 7, 5, 4, 4, 8, 7
_STILL_LOADING = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class RawMember:
    """One member on its own connection."""

    def __init__(
        self,
        address: str,
        group: str,
        *,
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "raw",
    ) -> None:
        # Not "consumer": Kafka reads what such members say of themselves, and these say anything.
        self.connection = RawConnection(address)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.instance_id = instance_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._protocols = {"range": b""} if protocols is None else protocols
        self._protocol_type = protocol_type
        self._pending = 0
        wait_for_coordinator(self.connection, group)

    def close(self) -> None:
        self.connection.close()

    def join(self) -> Any:
        """Join, with a member id asked for first where the group wants that; the last answer."""
        answer = self.join_once()
        if answer.error_code == ErrorCode.member_id_required:
            answer = self.join_once()
        return answer

    def join_once(self) -> Any:
        self.send_join()
        return self.receive_join()

    def take_member_id(self) -> None:
        """Get a member id, without being part of the group yet."""
        answer = self.join_once()
        assert answer.error_code == ErrorCode.member_id_required, answer

    def send_join(self) -> None:
        self._pending = self.connection.send(
            "join_group",
            JOIN,
            group_id=self.group,
            session_timeout=self._session_timeout_ms,
            rebalance_timeout=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self._protocol_type,
            protocols=[{"name": name, "metadata": data} for name, data in self._protocols.items()],
        )

    def receive_join(self) -> Any:
        answer = self.connection.receive("join_group", JOIN, self._pending)
        if answer.member_id:
            self.member_id = answer.member_id
        if answer.error_code == ErrorCode.none:
            self.generation, self.protocol = answer.generation_id, answer.protocol_name
        return answer

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        self.send_sync(assignments)
        return self.receive_sync()

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        listed = [{"member_id": each, "assignment": data} for each, data in (assignments or {}).items()]
        self._pending = self.connection.send(
            "sync_group",
            SYNC,
            assignments=listed,
            protocol_type=self._protocol_type,
            protocol_name=self.protocol,
            **self._identity(),
        )

    def receive_sync(self) -> Any:
        return self.connection.receive("sync_group", SYNC, self._pending)

    def heartbeat(self) -> ErrorCode:
        answer: ErrorCode = self.connection.call("heartbeat", HEARTBEAT, **self._identity()).error_code
        return answer

    def leave(self) -> Any:
        members = [{"member_id": self.member_id, "group_instance_id": self.instance_id}]
        return self.connection.call("leave_group", LEAVE, group_id=self.group, members=members)

    def commit(self, topic: str, offset: int, *, metadata: str | None = "") -> ErrorCode:
        """Commit for partition 0 as this member; the partition's error code."""
        return committed_as(
            self.connection,
            topic,
            offset,
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation=self.generation,
            metadata=metadata,
        )

    def _identity(self) -> dict[str, object]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def stable_group(*members: RawMember) -> None:
    """Bring members into one generation, each with its own name as assignment."""
    for member in members:
        member.take_member_id()
    members[0].join_once()
    members[0].sync({members[0].member_id: b""})
    for member in members[1:]:
        member.send_join()
    rejoin(*members, pending=members[1:])


def rejoin(*members: RawMember, pending: tuple[RawMember, ...] = ()) -> None:
    """One rebalance of these members; those in `pending` have sent their join already."""
    for member in members:
        if member not in pending:
            member.send_join()
    answers = {member: member.receive_join() for member in members}
    leaders = [member for member in members if answers[member].leader == member.member_id]
    for member in members:
        wanted = {each.member_id: each.member_id.encode() for each in members}
        member.send_sync(wanted if member in leaders else None)
    for member in members:
        assert member.receive_sync().assignment == member.member_id.encode()


def committed_as(
    connection: RawConnection,
    topic: str,
    offset: int,
    *,
    group_id: str,
    member_id: str = "",
    group_instance_id: str | None = None,
    generation: int = -1,
    metadata: str | None = "",
    partition: int = 0,
) -> ErrorCode:
    """Commit one offset, as nobody's member unless told otherwise; the partition's error code."""
    partitions = [{"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}]
    answer = connection.call(
        "offset_commit",
        COMMIT,
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=[{"name": topic, "partitions": partitions}],
    )
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


def committed(
    connection: RawConnection, group: str, topic: str, partition: int = 0
) -> tuple[int, str | None]:
    """(offset, metadata) that the group committed; (-1, "") if it did not."""
    answer = connection.call(
        "offset_fetch",
        FETCH,
        group_id=group,
        topics=[{"name": topic, "partition_indexes": [partition]}],
        require_stable=False,
    )
    assert answer.error_code == ErrorCode.none, answer
    found = answer.topics[0].partitions[0]
    assert found.error_code == ErrorCode.none, answer
    return found.committed_offset, found.metadata


def wait_for_coordinator(connection: RawConnection, group: str) -> None:
    """A fresh broker loads its group state first: wait until it answers for this group."""

    def is_ready() -> bool:
        found = connection.call("find_coordinator", 3, key=group, key_type=0)
        if found.error_code in _STILL_LOADING:
            return False
        described = connection.call("describe_groups", 4, groups=[group]).groups[0]
        return described.error_code not in _STILL_LOADING

    eventually(is_ready)
