"""A coordinator with the disk, the clock and the clients around it, all by hand.

Why: the rules are tested as values: what is asked, what is answered, what is stored, and what time does to it.
Invariants: records are stored and applied as soon as they are decided; a token is answered at most once; time
moves only through `pass_time`, which stops at every deadline on the way, as the server does.
"""

import struct
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace as Struct
from typing import Any

from millstream.coordination.coordinator import GroupCoordinator
from millstream.coordination.decision import Decision
from millstream.model.settings import Settings
from millstream.wire.errors import ErrorCode

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    named = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + named + struct.pack(">i", -1)


ORDERS = subscription("orders")


class Room:
    def __init__(self, stored: Sequence[tuple[bytes, bytes | None]] = (), **settings: Any) -> None:
        self.settings = settings
        self.now_ms = START_MS
        self.stored = list(stored)
        self.replies: dict[int, dict[str, Any]] = {}
        self._tokens = count(1)
        self._ids = count(1)
        self.start()

    # The node around the coordinator

    def start(self) -> None:
        self.coordinator = GroupCoordinator(Settings(**self.settings), lambda: f"uuid{next(self._ids)}")
        for key, value in self.stored:
            self.coordinator.apply(key, value)
        self.take(self.coordinator.recovered(self.now_ms))

    def restart(self, **settings: Any) -> None:
        """Everything but the stored records is lost."""
        self.settings |= settings
        self.start()

    def take(self, decision: Decision) -> Decision:
        for key, value in decision.records:
            self.stored.append((key, value))
            self.coordinator.apply(key, value)
        self.send(decision)
        return decision

    def send(self, decision: Decision) -> None:
        for token, body in decision.replies:
            assert token not in self.replies, f"token {token} is answered twice"
            self.replies[token] = body

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.take(self.coordinator.tick(self.now_ms))
        self.now_ms = end_ms

    def group(self, group_id: str = "g") -> Any:
        return self.coordinator.groups[group_id]

    def state(self, group_id: str = "g") -> str:
        return self.described(group_id)["group_state"]

    # Requests; each gives the token of its reply

    def ask(self, kind: str, request: Struct, version: int) -> int:
        token = next(self._tokens)
        self.take(self.decide(kind, request, version, token))
        return token

    def decide(self, kind: str, request: Struct, version: int, token: int) -> Decision:
        entry = getattr(self.coordinator, kind)
        decision: Decision = entry(
            request,
            version=version,
            token=token,
            client_id="shop",
            client_host="/10.0.0.7",
            now_ms=self.now_ms,
        )
        return decision

    def ask_join(self, member_id: str = "", *, group_id: str = "g", version: int = 9, **fields: Any) -> int:
        return self.ask("join", join_request(group_id, member_id, **fields), version)

    def ask_sync(self, member_id: str, *, group_id: str = "g", version: int = 5, **fields: Any) -> int:
        fields.setdefault("generation_id", self.generation(group_id))
        return self.ask("sync", sync_request(group_id, member_id, **fields), version)

    # Requests that are answered at once

    def join(self, member_id: str = "", **fields: Any) -> dict[str, Any]:
        return self.reply(self.ask_join(member_id, **fields))

    def sync(self, member_id: str, **fields: Any) -> dict[str, Any]:
        return self.reply(self.ask_sync(member_id, **fields))

    def heartbeat(
        self,
        member_id: str,
        *,
        group_id: str = "g",
        generation_id: int | None = None,
        group_instance_id: str | None = None,
    ) -> ErrorCode:
        request = Struct(
            group_id=group_id,
            member_id=member_id,
            generation_id=self.generation(group_id) if generation_id is None else generation_id,
            group_instance_id=group_instance_id,
        )
        code: ErrorCode = self.reply(self.ask("heartbeat", request, 4))["error_code"]
        return code

    def leave(
        self, *members: tuple[str, str | None], group_id: str = "g", version: int = 5
    ) -> list[ErrorCode]:
        """Leave by (member id, instance id); the codes of each."""
        leavers = [
            Struct(member_id=member_id, group_instance_id=instance_id, reason=None)
            for member_id, instance_id in members
        ]
        body = self.reply(self.ask("leave", Struct(group_id=group_id, members=leavers), version))
        return [member["error_code"] for member in body["members"]]

    def commit(self, offset: int = 7, **fields: Any) -> ErrorCode:
        """Commit one offset of orders-0 and give its error code."""
        version = fields.pop("version", 9)
        body = self.reply(self.ask("commit_offsets", commit_request(offset, **fields), version))
        code: ErrorCode = body["topics"][0]["partitions"][0]["error_code"]
        return code

    def fetch(self, topic: str = "orders", partition: int = 0, *, group_id: str = "g") -> dict[str, Any]:
        topics = [Struct(name=topic, partition_indexes=[partition])]
        request = Struct(groups=[Struct(group_id=group_id, topics=topics)], require_stable=False)
        body = self.reply(self.ask("fetch_offsets", request, 9))
        partition_body: dict[str, Any] = body["groups"][0]["topics"][0]["partitions"][0]
        return partition_body

    def committed(self, topic: str = "orders", partition: int = 0, *, group_id: str = "g") -> int:
        offset: int = self.fetch(topic, partition, group_id=group_id)["committed_offset"]
        return offset

    def described(self, group_id: str = "g", *, version: int = 6) -> dict[str, Any]:
        request = Struct(groups=[group_id], include_authorized_operations=False)
        body: dict[str, Any] = self.reply(self.ask("describe", request, version))["groups"][0]
        return body

    def listed(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[str]:
        request = Struct(states_filter=list(states), types_filter=list(types))
        return [group["group_id"] for group in self.reply(self.ask("list", request, 5))["groups"]]

    def delete_group(self, group_id: str = "g") -> ErrorCode:
        body = self.reply(self.ask("delete_groups", Struct(groups_names=[group_id]), 2))
        code: ErrorCode = body["results"][0]["error_code"]
        return code

    def delete_offset(self, topic: str = "orders", partition: int = 0, *, group_id: str = "g") -> ErrorCode:
        """The request's error, or else the partition's."""
        topics = [Struct(name=topic, partitions=[Struct(partition_index=partition)])]
        body = self.reply(self.ask("delete_offsets", Struct(group_id=group_id, topics=topics), 0))
        code: ErrorCode = body["error_code"] or body["topics"][0]["partitions"][0]["error_code"]
        return code

    # What happened

    def reply(self, token: int) -> dict[str, Any]:
        return self.replies[token]

    def is_waiting(self, token: int) -> bool:
        return token not in self.replies

    def generation(self, group_id: str = "g") -> int:
        group = self.coordinator.groups.get(group_id)
        return 0 if group is None else group.generation

    # Groups that are already where a test begins

    def new_member(self, **fields: Any) -> str:
        """A member id as KIP-394 hands it out."""
        member_id: str = self.join(**fields)["member_id"]
        return member_id

    def lone_member(self, **fields: Any) -> str:
        """The only member of a stable group; its assignment is b'all'."""
        member_id = fields.get("member_id") or self.new_member(**fields)
        self.join(member_id, **fields)
        self.sync(member_id, group_id=fields.get("group_id", "g"), assignments={member_id: b"all"})
        return str(member_id)

    def pair(self, **fields: Any) -> tuple[str, str]:
        """Leader and follower of a stable group; their assignments are b'left' and b'right'."""
        leader = self.lone_member(**fields)
        follower = self.new_member(**fields)
        self.ask_join(follower, **fields)
        self.join(leader, **fields)
        self.ask_sync(leader, assignments={leader: b"left", follower: b"right"})
        self.sync(follower)
        return leader, follower


def join_request(group_id: str, member_id: str, **fields: Any) -> Struct:
    protocols = fields.pop("protocols", {"range": ORDERS})
    values = {
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": REBALANCE_MS,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "reason": None,
    }
    assert fields.keys() <= values.keys(), fields
    named = [Struct(name=name, metadata=metadata) for name, metadata in protocols.items()]
    return Struct(group_id=group_id, member_id=member_id, protocols=named, **(values | fields))


def sync_request(group_id: str, member_id: str, **fields: Any) -> Struct:
    assignments = fields.pop("assignments", {})
    values = {"group_instance_id": None, "protocol_type": None, "protocol_name": None}
    named = [Struct(member_id=owner, assignment=assignment) for owner, assignment in assignments.items()]
    return Struct(group_id=group_id, member_id=member_id, assignments=named, **(values | fields))


def commit_request(
    offset: int,
    *,
    member_id: str = "",
    generation_id: int = -1,
    group_id: str = "g",
    group_instance_id: str | None = None,
    topic: str = "orders",
    partition: int = 0,
    leader_epoch: int = -1,
    metadata: str | None = None,
    **fields: Any,
) -> Struct:
    partitions = [
        Struct(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
    ]
    return Struct(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=generation_id,
        group_instance_id=group_instance_id,
        topics=[Struct(name=topic, partitions=partitions)],
        **fields,
    )
