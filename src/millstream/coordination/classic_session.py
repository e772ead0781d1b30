"""SyncGroup, Heartbeat and LeaveGroup: the life of a member between its joins.

Why: a member fetches its share, says now and then that it is alive, and says goodbye.
Invariants: a sync is answered only with an assignment whose record is durable, or is about to be in the same
decision. A heartbeat changes nothing but the session.
"""

from typing import Any

from millstream.coordination.classic_group import ClassicGroup, GroupState
from millstream.coordination.classic_rebalance import Rebalance, sync_refused, sync_reply
from millstream.coordination.decision import Decision, Waiting
from millstream.coordination.members import Member
from millstream.wire.errors import ErrorCode

GROUP_RECORD_BYTES_MAX = 16 * 1_048_576
"""A generation is one record: subscriptions and assignments of all members must fit."""


def sync(
    rebalance: Rebalance,
    group: ClassicGroup,
    request: Any,
    decision: Decision,
    *,
    waiting: Waiting,
    now_ms: int,
) -> None:
    error_code = _sync_refusal(group, request)
    if error_code is not ErrorCode.NONE:
        decision.reply(waiting.token, sync_refused(error_code))
        return
    member = group.members[request.member_id]
    rebalance.synced(group, member.member_id)
    if group.state is GroupState.STABLE:
        decision.reply(waiting.token, sync_reply(group, member.assignment))
        decision.after_earlier = True
        return
    if group.answer_sync(member, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), decision):
        rebalance.keep_session(member, now_ms)
    member.sync = waiting
    if group.leader == member.member_id:
        _take_assignment(rebalance, group, request, decision, now_ms)


def heartbeat(rebalance: Rebalance, group: ClassicGroup, request: Any, now_ms: int) -> ErrorCode:
    error_code = group.refusal(request.member_id, request.group_instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    rebalance.keep_session(group.members[request.member_id], now_ms)
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    rebalance: Rebalance,
    group: ClassicGroup,
    leavers: list[tuple[str, str | None, str | None]],
    decision: Decision,
    now_ms: int,
) -> list[ErrorCode]:
    """Take members out by (member id, instance id, reason); the answer has a code for each."""
    codes = []
    gone = []
    reasons = []
    for member_id, group_instance_id, reason in leavers:
        member = _leaver(group, member_id, group_instance_id)
        if isinstance(member, ErrorCode):
            codes.append(member)
            continue
        codes.append(ErrorCode.NONE)
        reasons.append(f"{member_id or group_instance_id} left: {reason or 'no reason given'}")
        if member is None:
            rebalance.forget_pending(group, member_id)
        else:
            # A member named twice is gone the second time.
            rebalance.detach(group, member, decision)
            gone.append(member)
    if gone:
        rebalance.remove(group, (), decision, now_ms, "; ".join(reasons))
    elif reasons:
        rebalance.complete_if_all_joined(group, decision, now_ms)
    return codes


def _sync_refusal(group: ClassicGroup, request: Any) -> ErrorCode:
    error_code = group.refusal(request.member_id, request.group_instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(said: str | None, held: str | None) -> bool:
    """Clients before version 5 don't say."""
    return said is not None and held is not None and said != held


def _take_assignment(
    rebalance: Rebalance, group: ClassicGroup, request: Any, decision: Decision, now_ms: int
) -> None:
    assignments = {
        assignment.member_id: bytes(assignment.assignment)
        for assignment in request.assignments
        if assignment.member_id in group.members
    }
    size = sum(map(len, assignments.values()))
    size += sum(len(member["metadata"]) for member in group.join_members())
    if size > GROUP_RECORD_BYTES_MAX:
        rebalance.fail_assignment(group, decision, now_ms, ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    rebalance.assign(group, assignments, decision, now_ms)


def _leaver(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> Member | ErrorCode | None:
    """The member that leaves, None for a pending one, or why it can't. An administrator names the instance
    without the member id."""
    if not member_id:
        if group_instance_id is None or group_instance_id not in group.static_ids:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return group.members[group.static_ids[group_instance_id]]
    if member_id in group.pending:
        return None
    error_code = group.refusal(member_id, group_instance_id)
    return group.members[member_id] if error_code is ErrorCode.NONE else error_code
