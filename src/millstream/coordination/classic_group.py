"""A group of the classic protocol: its members, its generation, its state.

Why: the state that all rules of the protocol read and move, with the arithmetic that keeps it consistent.
Invariants:
- the leader, when there is one, is a member; `static_ids` maps an instance id to the member that has it now;
- at least one protocol is spoken by all members, because a member that shares none is refused;
- `joined_count` is the number of members that wait for their join; pending ids are no members;
- `generation`, members and assignments as of the last `apply` are what a restart brings back; everything else
  (who waits, timers, a rebalance under way) is lost in a crash, and clients recover by joining again.

Empty → PreparingRebalance (members join) → CompletingRebalance (the leader assigns) → Stable; each of the
last two falls back to PreparingRebalance, which ends in Empty when nobody is left. Dead is a group that was
deleted.
"""

from enum import Enum
from typing import Any

from millstream.coordination.decision import Decision, Waiting
from millstream.coordination.group_records import CommittedOffset, StoredGroup, StoredMember
from millstream.coordination.members import Member, Protocols
from millstream.coordination.offsets import GroupOffsets
from millstream.coordination.subscriptions import CONSUMER_PROTOCOL, subscribed_topics
from millstream.coordination.timers import Timer, TimerKind
from millstream.wire.errors import ErrorCode


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    type = "classic"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.pending: dict[str, Timer] = {}
        self.pending_sync: set[str] = set()
        self.joined_count = 0
        self.subscribed: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self.join_timer = Timer(TimerKind.JOIN, self)
        self.sync_timer = Timer(TimerKind.SYNC, self)
        self.initial_delay_ms = 0
        """How long the first rebalance is waiting just now, and how long it may still wait after that."""
        self.initial_remaining_ms: int | None = None
        self.is_joined_by_more = False
        self.rebalance_reason = ""
        """Why the last rebalance began, for a person who wonders."""
        self._speakers: dict[str, int] = {}

    # What the group knows

    @property
    def is_idle(self) -> bool:
        """Nothing would be lost if the group were forgotten."""
        return (
            self.state is GroupState.EMPTY
            and self.generation == 0
            and not (self.members or self.pending or self.offsets)
        )

    @property
    def all_have_joined(self) -> bool:
        return self.joined_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def refusal(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE for a member that may speak; Kafka's error for a stranger or a replaced static member."""
        if group_instance_id is not None:
            holder = self.static_ids.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def can_take(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member that speaks these has a protocol in common with all the others."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._speakers.get(name) == count for name in protocols
        )

    def selected_protocol(self) -> str:
        """The protocol all speak that most prefer. The present one wins a tie, then the earlier member's choice:
        a static member that returns must not change it by coming last."""
        count = len(self.members)
        candidates = {name for name, speakers in self._speakers.items() if speakers == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: (votes[name], name == self.protocol_name))

    def is_subscribed(self, topic: str) -> bool:
        """A consumer group whose subscriptions can't be read counts as subscribed to everything."""
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.subscribed

    def expired_offsets(self, *, retention_ms: int, now_ms: int) -> list[tuple[str, int]]:
        """Offsets to forget: of an empty group since it is empty, of others since they were committed,
        never those of a topic the group reads."""
        if self.protocol_type is None:
            found = self.offsets.expired(since_ms=_committed_at, retention_ms=retention_ms, now_ms=now_ms)
        elif self.state is GroupState.EMPTY:
            found = self.offsets.expired(since_ms=self._emptied_at, retention_ms=retention_ms, now_ms=now_ms)
        elif self.state is GroupState.STABLE and self.subscribed is not None:
            found = self.offsets.expired(since_ms=_committed_at, retention_ms=retention_ms, now_ms=now_ms)
        else:
            return []
        return [(topic, partition) for topic, partition in found if not self.is_subscribed(topic)]

    def join_members(self) -> list[dict[str, Any]]:
        """What the leader is told to divide the work."""
        name = self.protocol_name or ""
        return [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.protocols.get(name, b""),
            }
            for member in self.members.values()
        ]

    def stored(self, assignments: dict[str, bytes], now_ms: int) -> StoredGroup:
        """This generation as a record; members without an assignment get an empty one."""
        name = self.protocol_name or ""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            state_since_ms=now_ms,
            members=tuple(
                StoredMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.protocols.get(name, b""),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    def stored_empty(self, now_ms: int) -> StoredGroup:
        """The next generation, without members, as a record."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation + 1,
            protocol=None,
            leader=None,
            state_since_ms=now_ms,
            members=(),
        )

    # Membership

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)

    def remove(self, member: Member) -> None:
        """The member must not be waiting: answer it first."""
        assert member.join is None, f"{member.member_id} would never get its answer"
        assert member.sync is None, f"{member.member_id} would never get its answer"
        del self.members[member.member_id]
        self._count(member.protocols, -1)
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def replace(self, old: Member, new: Member) -> None:
        """Give a static member's place to the process that took over its instance id."""
        assert old.join is None, f"{old.member_id} would never get its answer"
        assert old.sync is None, f"{old.member_id} would never get its answer"
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self._count(old.protocols, -1)
        self._count(new.protocols, 1)
        self.static_ids[new.group_instance_id or ""] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id
        if old.member_id in self.pending_sync:
            self.pending_sync.remove(old.member_id)
            self.pending_sync.add(new.member_id)

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, else take another that has; False if there is none."""
        if self.leader is not None and self.members[self.leader].join is not None:
            return True
        for member in self.members.values():
            if member.join is not None:
                self.leader = member.member_id
                return True
        return False

    # Replies that wait

    def await_join(self, member: Member, waiting: Waiting, decision: Decision) -> None:
        """Hold a join until the rebalance ends. One that was sent again leaves its first try without use:
        that one is answered too, or its connection could never send another reply."""
        if member.join is not None:
            self.answer_join(
                member, join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), decision
            )
        member.join = waiting
        self.joined_count += 1

    def answer_join(self, member: Member, body: dict[str, Any], decision: Decision) -> None:
        if member.join is not None:
            token, version = member.join
            member.join = None
            self.joined_count -= 1
            decision.reply(token, for_version(body, version))

    def answer_sync(self, member: Member, body: dict[str, Any], decision: Decision) -> bool:
        if member.sync is None:
            return False
        decision.reply(member.sync.token, body)
        member.sync = None
        return True

    # Transitions

    def move_to(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """All who are in now are this generation."""
        self.generation += 1
        self.protocol_name = self.selected_protocol()
        self.subscribed = self._subscribed()
        self.pending_sync = set(self.members)
        self.move_to(GroupState.COMPLETING, now_ms)

    def apply(self, stored: StoredGroup) -> None:
        """Make the record so. Members that are here keep their sessions and what they wait for."""
        kept = {member.member_id for member in stored.members}
        for member in [member for member in self.members.values() if member.member_id not in kept]:
            self.remove(member)
        for image in stored.members:
            known = self.members.get(image.member_id)
            if known is None:
                self.add(_restored(self, image, stored.protocol or ""), stored.protocol_type)
            else:
                known.assignment = image.assignment
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol
        self.leader = stored.leader if stored.leader in self.members else next(iter(self.members), None)
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.state_since_ms = stored.state_since_ms
        self.subscribed = self._subscribed()

    def forget_membership(self) -> None:
        """Back to a group that only keeps offsets: its metadata was deleted."""
        self.apply(
            StoredGroup(
                protocol_type="", generation=0, protocol=None, leader=None, state_since_ms=-1, members=()
            )
        )

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self.members:
            return frozenset()
        found: set[str] = set()
        for member in self.members.values():
            topics = subscribed_topics(member.protocols.get(self.protocol_name or "", b""))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    def _emptied_at(self, committed: CommittedOffset) -> int:
        return committed.commit_ms if self.state_since_ms < 0 else self.state_since_ms

    def _count(self, protocols: Protocols, step: int) -> None:
        for name in protocols:
            count = self._speakers.get(name, 0) + step
            if count:
                self._speakers[name] = count
            else:
                del self._speakers[name]


def join_refused(error_code: ErrorCode, member_id: str) -> dict[str, Any]:
    return {
        "error_code": error_code,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def for_version(join_reply: dict[str, Any], version: int) -> dict[str, Any]:
    """JoinGroup knew no null protocol before version 7."""
    if version < 7 and join_reply["protocol_name"] is None:
        return {**join_reply, "protocol_name": ""}
    return join_reply


def _committed_at(committed: CommittedOffset) -> int:
    return committed.commit_ms


def _restored(group: ClassicGroup, image: StoredMember, protocol: str) -> Member:
    return Member(
        member_id=image.member_id,
        group_instance_id=image.group_instance_id,
        client_id=image.client_id,
        client_host=image.client_host,
        rebalance_timeout_ms=image.rebalance_timeout_ms,
        session_timeout_ms=image.session_timeout_ms,
        protocols={protocol: image.subscription},
        session=Timer(TimerKind.SESSION, group, image.member_id),
        assignment=image.assignment,
    )
