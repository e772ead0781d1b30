"""JoinGroup: who may become, or go on being, a member of a classic group.

Why: most of the protocol's history is in this one request: ids handed out first (KIP-394), static members
that return (KIP-345), limits, and a rejoin that must not disturb a group for nothing.
Invariants: a join is answered at once, or the member waits for the rebalance. Nothing here appends a record,
except for a static member that takes its old place in a Stable group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.coordination.classic_group import ClassicGroup, GroupState, for_version, join_refused
from millstream.coordination.classic_rebalance import Rebalance, join_reply, sync_refused
from millstream.coordination.decision import Decision, Waiting
from millstream.coordination.group_records import group_key, group_value
from millstream.coordination.members import (
    Member,
    Protocols,
    protocols_of,
    protocols_size,
)
from millstream.coordination.subscriptions import subscribed_topics
from millstream.coordination.timers import Timer, TimerKind
from millstream.model.settings import Settings
from millstream.wire.errors import ErrorCode

NAME_LENGTH_MAX = 8_000
"""Characters of a group id, instance id or protocol name: four bytes each still fit a stored string."""

CLIENT_NAME_LENGTH_MAX = 255
"""Characters of a client id that a member keeps and carries in its own id."""

MEMBER_METADATA_BYTES_MAX = 1_048_576
"""What one member may say in all its protocols together."""

PENDING_MEMBERS_MAX = 20_000
"""Member ids handed out and not yet used, over all groups."""

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """A JoinGroup request, read once."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str
    waiting: Waiting
    now_ms: int

    def reply(self, decision: Decision, body: dict[str, Any]) -> None:
        decision.reply(self.waiting.token, for_version(body, self.waiting.version))

    def refuse(self, decision: Decision, error_code: ErrorCode, member_id: str | None = None) -> None:
        self.reply(decision, join_refused(error_code, self.member_id if member_id is None else member_id))


def joiner_of(
    request: Any, *, version: int, token: Any, client_id: str | None, client_host: str, now_ms: int
) -> Joiner:
    rebalance_timeout_ms = request.rebalance_timeout_ms if version > 0 else -1
    return Joiner(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=(client_id or "")[:CLIENT_NAME_LENGTH_MAX],
        client_host=client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=protocols_of(request),
        reason=request.reason or "not given",
        waiting=Waiting(token, version),
        now_ms=now_ms,
    )


def has_bounds(joiner: Joiner) -> bool:
    """Whether everything in it can be stored."""
    names = (joiner.protocol_type, joiner.group_instance_id or "", *joiner.protocols)
    return (
        all(len(name) <= NAME_LENGTH_MAX for name in names)
        and protocols_size(joiner.protocols) <= MEMBER_METADATA_BYTES_MAX
    )


class Joining:
    def __init__(self, settings: Settings, rebalance: Rebalance, new_id: Callable[[], str]) -> None:
        self._size_max = settings.group_max_size
        self._rebalance = rebalance
        self._new_id = new_id

    def join(self, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
        if not self._has_room(group, joiner):
            self._turn_away(group, joiner, decision)
        elif not group.can_take(joiner.protocol_type, joiner.protocols):
            joiner.refuse(decision, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif joiner.member_id:
            self._join_again(group, joiner, decision)
        elif joiner.group_instance_id is not None:
            self._join_static(group, joiner, decision)
        elif joiner.waiting.version >= MEMBER_ID_REQUIRED_VERSION:
            self._hand_out_id(group, joiner, decision)
        else:
            self._add(group, joiner, f"{joiner.client_id}-{self._new_id()}", decision)

    def _has_room(self, group: ClassicGroup, joiner: Joiner) -> bool:
        """While a group rebalances, places go to those who join first: a group that is over its size (the
        limit was lowered) loses its last ones."""
        if group.state is GroupState.EMPTY:
            return len(group.pending) < self._size_max or bool(joiner.member_id)
        member = group.members.get(joiner.member_id)
        if member is None and not joiner.member_id and joiner.group_instance_id in group.static_ids:
            member = group.members[group.static_ids[joiner.group_instance_id]]
        if group.state is GroupState.PREPARING:
            if member is not None and member.join is not None:
                return True
            taken = group.joined_count
        elif member is not None:
            return True
        else:
            taken = len(group.members)
        return taken < self._size_max and (bool(joiner.member_id) or len(group.pending) < self._size_max)

    def _turn_away(self, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
        joiner.refuse(decision, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        member = group.members.get(joiner.member_id)
        if member is not None:
            self._rebalance.remove(group, [member], decision, joiner.now_ms, "the group is over its size")
        elif joiner.member_id in group.pending:
            self._rebalance.forget_pending(group, joiner.member_id)
            self._rebalance.complete_if_all_joined(group, decision, joiner.now_ms)

    def _hand_out_id(self, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
        """The first join of a dynamic member only gets an id: a client that retries then retries as
        itself."""
        if self._rebalance.pending_count >= PENDING_MEMBERS_MAX:
            joiner.refuse(decision, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        member_id = f"{joiner.client_id}-{self._new_id()}"
        self._rebalance.expect(group, member_id, joiner.now_ms + joiner.session_timeout_ms)
        joiner.refuse(decision, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _join_static(self, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
        member_id = f"{joiner.group_instance_id}-{self._new_id()}"
        holder = group.static_ids.get(joiner.group_instance_id or "")
        if holder is None:
            self._add(group, joiner, member_id, decision)
        else:
            self._replace_static(group, joiner, group.members[holder], member_id, decision)

    def _join_again(self, group: ClassicGroup, joiner: Joiner, decision: Decision) -> None:
        if joiner.member_id in group.pending and joiner.group_instance_id is None:
            self._rebalance.forget_pending(group, joiner.member_id)
            self._add(group, joiner, joiner.member_id, decision)
            return
        error_code = group.refusal(joiner.member_id, joiner.group_instance_id)
        if error_code is not ErrorCode.NONE:
            joiner.refuse(decision, error_code)
            return
        member = group.members[joiner.member_id]
        if self._is_nothing_new(group, member, joiner):
            joiner.reply(decision, join_reply(group, member))
            return
        self._update(group, member, joiner, decision)
        self._rebalance.begin(
            group, decision, joiner.now_ms, f"{member.member_id} joined again: {joiner.reason}"
        )

    def _is_nothing_new(self, group: ClassicGroup, member: Member, joiner: Joiner) -> bool:
        """A member that says what it said before missed our reply. A leader that joins again in a stable
        group wants the work divided anew."""
        if group.state is GroupState.STABLE:
            return group.leader != member.member_id and member.speaks_the_same(joiner.protocols)
        return group.state is GroupState.COMPLETING and member.speaks_the_same(joiner.protocols)

    def _add(self, group: ClassicGroup, joiner: Joiner, member_id: str, decision: Decision) -> None:
        member = self._member(group, joiner, member_id)
        member.is_new = True
        if group.initial_remaining_ms is not None:
            group.is_joined_by_more = True
        group.add(member, joiner.protocol_type)
        group.await_join(member, joiner.waiting, decision)
        self._rebalance.keep_new_session(member, joiner.now_ms)
        self._rebalance.begin(group, decision, joiner.now_ms, f"{member_id} joined: {joiner.reason}")

    def _update(self, group: ClassicGroup, member: Member, joiner: Joiner, decision: Decision) -> None:
        group.set_protocols(member, joiner.protocols)
        member.rebalance_timeout_ms = joiner.rebalance_timeout_ms
        member.session_timeout_ms = joiner.session_timeout_ms
        group.await_join(member, joiner.waiting, decision)

    def _replace_static(
        self, group: ClassicGroup, joiner: Joiner, old: Member, member_id: str, decision: Decision
    ) -> None:
        """A static member is back under a new id: it takes its old place, and its former self is fenced."""
        leader_before = group.leader
        group.answer_join(old, join_refused(ErrorCode.FENCED_INSTANCE_ID, old.member_id), decision)
        group.answer_sync(old, sync_refused(ErrorCode.FENCED_INSTANCE_ID), decision)
        self._rebalance.end_session(old)
        member = self._member(group, joiner, member_id)
        member.assignment = old.assignment
        group.replace(old, member)
        self._rebalance.keep_session(member, joiner.now_ms)
        if group.state is GroupState.STABLE and _wants_the_same(group, old, member):
            self._return_to_place(group, member, leader_before, joiner, decision)
            return
        group.await_join(member, joiner.waiting, decision)
        self._rebalance.begin(group, decision, joiner.now_ms, f"{member_id} returned: {joiner.reason}")

    def _return_to_place(
        self,
        group: ClassicGroup,
        member: Member,
        leader_before: str | None,
        joiner: Joiner,
        decision: Decision,
    ) -> None:
        """No rebalance. The leader is told to leave the assignment alone; before that could be said, it was
        given its former self as the leader, so that it waits for an assignment like the others."""
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        decision.records.append(
            (group_key(group.group_id), group_value(group.stored(assignments, joiner.now_ms)))
        )
        body = join_reply(group, member)
        if joiner.waiting.version >= SKIP_ASSIGNMENT_VERSION:
            body["skip_assignment"] = group.leader == member.member_id
        else:
            body |= {"leader": leader_before, "members": []}
        joiner.reply(decision, body)

    def _member(self, group: ClassicGroup, joiner: Joiner, member_id: str) -> Member:
        return Member(
            member_id=member_id,
            group_instance_id=joiner.group_instance_id,
            client_id=joiner.client_id,
            client_host=joiner.client_host,
            rebalance_timeout_ms=joiner.rebalance_timeout_ms,
            session_timeout_ms=joiner.session_timeout_ms,
            protocols=joiner.protocols,
            session=Timer(TimerKind.SESSION, group, member_id),
        )


def _wants_the_same(group: ClassicGroup, old: Member, new: Member) -> bool:
    """Whether a static member that is back would be given the same: same protocol for all, same topics.

    Only the topics count: the rest of a subscription says what the process before it owned.
    """
    name = group.protocol_name or ""
    if group.selected_protocol() != name:
        return False
    if group.subscribed is None:
        return True
    return subscribed_topics(old.protocols[name]) == subscribed_topics(new.protocols[name])
