"""How a classic group gets from one generation to the next.

Why: joining, leaving, expiring and syncing all end in the same few moves; they are here, once.
Invariants: whoever stops waiting and stays a member gets a fresh session, because its last one may have run
out while it was excused. A member is answered before it is removed. A group without members becomes Empty
by the record that says so. Every deadline set here lies in the future, so that a tick ends.

A rebalance waits for all members to join again, no longer than the longest rebalance timeout among them;
those that did not are removed, except static members, which may be restarting: they keep their place until
their session ends, or until they fail to fetch an assignment in time. The first rebalance of an empty group
waits for `group.initial.rebalance.delay.ms` instead, and again as long as more members come.
"""

from collections.abc import Iterable
from typing import Any

from millstream.coordination.classic_group import ClassicGroup, GroupState, join_refused
from millstream.coordination.decision import Decision
from millstream.coordination.group_records import group_key, group_value
from millstream.coordination.members import NEW_MEMBER_TIMEOUT_MS, Member
from millstream.coordination.timers import Timer, TimerKind, Timers
from millstream.wire.errors import ErrorCode

RETRY_MS_MIN = 1_000
"""A rebalance that nobody joins is looked at again no sooner than this, whatever timeout the members asked
for."""

REASON_LENGTH_MAX = 255


class Rebalance:
    def __init__(self, timers: Timers, *, initial_delay_ms: int) -> None:
        self._timers = timers
        self._initial_delay_ms = initial_delay_ms
        self.pending_count = 0
        """Member ids handed out and not yet used, over all groups."""

    def keep_session(self, member: Member, now_ms: int) -> None:
        self._timers.start(member.session, now_ms + member.session_timeout_ms)

    def keep_new_session(self, member: Member, now_ms: int) -> None:
        self._timers.start(member.session, now_ms + NEW_MEMBER_TIMEOUT_MS)

    def end_session(self, member: Member) -> None:
        self._timers.stop(member.session)

    def begin(self, group: ClassicGroup, decision: Decision, now_ms: int, reason: str) -> None:
        """Start a rebalance, or go on with the one under way if everybody has joined."""
        if group.state is GroupState.PREPARING:
            self.complete_if_all_joined(group, decision, now_ms)
            return
        group.rebalance_reason = reason[:REASON_LENGTH_MAX]
        self._answer_syncs(group, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), decision, now_ms)
        group.pending_sync.clear()
        self._timers.stop(group.sync_timer)
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING, now_ms)
        if is_initial:
            self._begin_initial(group, decision, now_ms)
        elif group.all_have_joined or not group.members:
            self._complete(group, decision, now_ms)
        else:
            self._timers.start(group.join_timer, now_ms + max(group.rebalance_timeout_ms, 1))

    def complete_if_all_joined(self, group: ClassicGroup, decision: Decision, now_ms: int) -> None:
        """End the join phase unless someone is missing, or the first rebalance still waits for strangers."""
        is_due = group.state is GroupState.PREPARING and group.initial_remaining_ms is None
        if is_due and group.all_have_joined:
            self._complete(group, decision, now_ms)

    def remove(
        self, group: ClassicGroup, members: Iterable[Member], decision: Decision, now_ms: int, reason: str
    ) -> None:
        """Members are gone; the others share what they had."""
        for member in members:
            self.detach(group, member, decision)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING):
            self.begin(group, decision, now_ms, reason)
        else:
            self.complete_if_all_joined(group, decision, now_ms)

    def detach(self, group: ClassicGroup, member: Member, decision: Decision) -> None:
        """Take a member out without looking at what that means for the group. If it is alive, it joins
        again."""
        group.answer_join(member, join_refused(ErrorCode.UNKNOWN_MEMBER_ID, ""), decision)
        group.answer_sync(member, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID), decision)
        self.end_session(member)
        group.remove(member)

    def expect(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        """An id was handed out: a rebalance waits for its owner, but not for ever."""
        timer = group.pending[member_id] = Timer(TimerKind.PENDING, group, member_id)
        self.pending_count += 1
        self._timers.start(timer, deadline_ms)

    def forget_pending(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.stop(group.pending.pop(member_id))
        self.pending_count -= 1

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member has asked for its assignment."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._timers.stop(group.sync_timer)

    def assign(
        self, group: ClassicGroup, assignments: dict[str, bytes], decision: Decision, now_ms: int
    ) -> None:
        """The leader has divided the work: applying the record makes the group Stable."""
        decision.records.append((group_key(group.group_id), group_value(group.stored(assignments, now_ms))))
        for member in group.members.values():
            body = sync_reply(group, assignments.get(member.member_id, b""))
            if group.answer_sync(member, body, decision):
                self.keep_session(member, now_ms)

    def fail_assignment(
        self, group: ClassicGroup, decision: Decision, now_ms: int, error_code: ErrorCode
    ) -> None:
        """The assignment could not be stored: nobody may act on it."""
        self._answer_syncs(group, sync_refused(error_code), decision, now_ms)
        self.begin(group, decision, now_ms, f"the assignment could not be stored: {error_code.name}")

    def join_due(self, group: ClassicGroup, decision: Decision, now_ms: int) -> None:
        """The join timer: members had their time."""
        if group.state is not GroupState.PREPARING:
            return
        remaining_ms = group.initial_remaining_ms
        if remaining_ms and group.is_joined_by_more:
            group.is_joined_by_more = False
            group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
            group.initial_delay_ms = min(self._initial_delay_ms, remaining_ms)
            self._timers.start(group.join_timer, now_ms + group.initial_delay_ms)
            return
        self._complete(group, decision, now_ms)

    def sync_due(self, group: ClassicGroup, decision: Decision, now_ms: int) -> None:
        """The sync timer: whoever has not asked for its assignment is gone."""
        if group.state in (GroupState.COMPLETING, GroupState.STABLE) and group.pending_sync:
            missing = [m for m in group.members.values() if m.member_id in group.pending_sync]
            self.remove(
                group, missing, decision, now_ms, f"{len(missing)} members did not fetch an assignment"
            )

    def session_due(self, group: ClassicGroup, member_id: str, decision: Decision, now_ms: int) -> None:
        """A session timer: a member has not been heard from."""
        member = group.members.get(member_id)
        if member is not None and not member.is_excused:
            self.remove(group, [member], decision, now_ms, f"the session of {member_id} ended")

    def pending_due(self, group: ClassicGroup, member_id: str, decision: Decision, now_ms: int) -> None:
        """A pending member's timer: nobody joined with the id it was given."""
        if member_id in group.pending:
            self.forget_pending(group, member_id)
            self.complete_if_all_joined(group, decision, now_ms)

    def stop(self, group: ClassicGroup) -> None:
        """The group is deleted: nothing of it may come due."""
        self._timers.stop(group.join_timer)
        self._timers.stop(group.sync_timer)
        for member in group.members.values():
            self._timers.stop(member.session)
        for member_id in list(group.pending):
            self.forget_pending(group, member_id)

    def _begin_initial(self, group: ClassicGroup, decision: Decision, now_ms: int) -> None:
        if self._initial_delay_ms == 0:
            self._complete(group, decision, now_ms)
            return
        group.initial_delay_ms = self._initial_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - self._initial_delay_ms, 0)
        group.is_joined_by_more = False
        self._timers.start(group.join_timer, now_ms + self._initial_delay_ms)

    def _complete(self, group: ClassicGroup, decision: Decision, now_ms: int) -> None:
        """End the join phase with those who are there."""
        self._timers.stop(group.join_timer)
        group.initial_remaining_ms = None
        for member in [m for m in group.members.values() if m.join is None and not m.is_static]:
            self.detach(group, member, decision)
        if not group.members:
            decision.records.append((group_key(group.group_id), group_value(group.stored_empty(now_ms))))
            return
        if not group.elect_leader():
            # Only static members are left and none has come back: their sessions decide.
            self._timers.start(group.join_timer, now_ms + max(group.rebalance_timeout_ms, RETRY_MS_MIN))
            return
        group.begin_generation(now_ms)
        for member in group.members.values():
            group.answer_join(member, join_reply(group, member), decision)
            self.keep_session(member, now_ms)
            member.is_new = False
        self._timers.start(group.sync_timer, now_ms + max(group.rebalance_timeout_ms, 1))

    def _answer_syncs(
        self, group: ClassicGroup, body: dict[str, Any], decision: Decision, now_ms: int
    ) -> None:
        for member in group.members.values():
            if group.answer_sync(member, body, decision):
                self.keep_session(member, now_ms)


def join_reply(group: ClassicGroup, member: Member) -> dict[str, Any]:
    """The current generation, as a member sees it: only the leader is told who else is in."""
    return {
        "error_code": ErrorCode.NONE,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader,
        "skip_assignment": False,
        "member_id": member.member_id,
        "members": group.join_members() if group.leader == member.member_id else [],
    }


def sync_reply(group: ClassicGroup, assignment: bytes) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "assignment": assignment,
    }


def sync_refused(error_code: ErrorCode) -> dict[str, Any]:
    return {"error_code": error_code, "protocol_type": None, "protocol_name": None, "assignment": b""}
