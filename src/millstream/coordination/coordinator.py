"""The consumer groups of a node: one door for every group request.

Why: a request names a group; here the group is found, asked, and later woken when its time comes.
Invariants: a request is always decided, never raises, and its token is answered exactly once, now or later.
`apply` alone changes offsets, generations and assignments. A group that holds nothing is forgotten.

The caller's part, for each call that gives a `Decision`:
1. append its records, each to the partition `offsets_partition(group_id_of(key), …)`;
2. `apply` each at once, before any other call; if the append failed, `append_failed` says what to do instead;
3. send the replies when the records are durable (with `after_earlier`: and all that were appended before).

On start: `apply` everything stored, then `recovered`. Then `tick` whenever `next_deadline_ms` has come.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

from millstream.coordination import classic_session, group_listing, offset_requests
from millstream.coordination.classic_group import ClassicGroup, GroupState
from millstream.coordination.classic_join import NAME_LENGTH_MAX, Joiner, Joining, has_bounds, joiner_of
from millstream.coordination.classic_rebalance import Rebalance, sync_refused
from millstream.coordination.decision import Call, Decision, Record, Waiting, refused
from millstream.coordination.group_records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    group_key,
    offset_key,
    read_group_value,
    read_key,
    read_offset_value,
)
from millstream.coordination.timers import Timer, TimerKind, Timers
from millstream.model.settings import Settings
from millstream.wire.errors import ErrorCode

GROUPS_MAX = 100_000
"""No request creates a group beyond this; stored groups are always loaded."""

SWEEP_GROUPS_MAX = 200
SWEEP_PAUSE_MS = 20
"""A sweep looks at so many groups, then lets others work for so long."""


class GroupCoordinator:
    def __init__(self, settings: Settings, new_id: Callable[[], str]) -> None:
        """`new_id` gives a fresh random id (a UUID as text) at each call."""
        self.groups: dict[str, ClassicGroup] = {}
        self._settings = settings
        self._timers = Timers()
        self._rebalance = Rebalance(self._timers, initial_delay_ms=settings.group_initial_rebalance_delay_ms)
        self._joining = Joining(settings, self._rebalance, new_id)
        self._sweep_timer = Timer(TimerKind.SWEEP)
        self._sweep_left: list[str] = []
        self._retention_ms = settings.offsets_retention_minutes * 60_000

    # Membership

    def join(self, request: Any, **call: Unpack[Call]) -> Decision:
        decision = Decision()
        joiner = joiner_of(request, **call)
        error_code = self._join_refusal(request.group_id, joiner)
        if error_code is not ErrorCode.NONE:
            joiner.refuse(decision, error_code)
            return decision
        group = self.groups.get(request.group_id)
        if group is None:
            group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        self._joining.join(group, joiner, decision)
        self._forget_if_idle(group)
        return decision

    def sync(self, request: Any, **call: Unpack[Call]) -> Decision:
        decision = Decision()
        group = self.groups.get(request.group_id)
        if group is None:
            return decision.reply(call["token"], sync_refused(_not_a_member(request.group_id)))
        waiting = Waiting(call["token"], call["version"])
        classic_session.sync(
            self._rebalance, group, request, decision, waiting=waiting, now_ms=call["now_ms"]
        )
        return decision

    def heartbeat(self, request: Any, **call: Unpack[Call]) -> Decision:
        group = self.groups.get(request.group_id)
        if group is None:
            error_code = _not_a_member(request.group_id)
        else:
            error_code = classic_session.heartbeat(self._rebalance, group, request, call["now_ms"])
        return Decision().reply(call["token"], {"error_code": error_code})

    def leave(self, request: Any, **call: Unpack[Call]) -> Decision:
        decision = Decision()
        if not request.group_id:
            return decision.reply(call["token"], {"error_code": ErrorCode.INVALID_GROUP_ID, "members": []})
        leavers = _leavers(request, call["version"])
        group = self.groups.get(request.group_id)
        if group is None:
            codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        else:
            codes = classic_session.leave(self._rebalance, group, leavers, decision, call["now_ms"])
            self._forget_if_idle(group)
        return decision.reply(call["token"], _left(leavers, codes, call["version"]))

    # Offsets

    def commit_offsets(self, request: Any, **call: Unpack[Call]) -> Decision:
        group = self.groups.get(request.group_id)
        error_code = self._commit_refusal(group, request, call["version"])
        if error_code is not ErrorCode.NONE:
            return Decision().reply(call["token"], offset_requests.commit_refused(request, error_code))
        if group is not None and request.member_id in group.members:
            self._rebalance.keep_session(group.members[request.member_id], call["now_ms"])
        records, body = offset_requests.commit_records(
            request, metadata_length_max=self._settings.offset_metadata_max_bytes, now_ms=call["now_ms"]
        )
        return Decision(records).reply(call["token"], body)

    def fetch_offsets(self, request: Any, **call: Unpack[Call]) -> Decision:
        decision = Decision(after_earlier=True)
        if call["version"] < 8:
            topics = offset_requests.fetched(self.groups.get(request.group_id), request.topics)
            return decision.reply(call["token"], {"error_code": ErrorCode.NONE, "topics": topics})
        groups = [
            {
                "group_id": asked.group_id,
                "error_code": ErrorCode.NONE,
                "topics": offset_requests.fetched(self.groups.get(asked.group_id), asked.topics),
            }
            for asked in request.groups
        ]
        return decision.reply(call["token"], {"groups": groups})

    def delete_offsets(self, request: Any, **call: Unpack[Call]) -> Decision:
        group = self.groups.get(request.group_id)
        error_code = offset_requests.delete_refusal(group) if request.group_id else ErrorCode.INVALID_GROUP_ID
        if group is None or error_code is not ErrorCode.NONE:
            return Decision().reply(call["token"], {"error_code": error_code, "topics": []})
        records, body = offset_requests.delete_records(group, request)
        return Decision(records, after_earlier=True).reply(call["token"], body)

    def committed_offsets(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """(group, topic, partition, offset) of everything committed, for lag and metrics."""
        for group in self.groups.values():
            for topic, partition, committed in group.offsets:
                yield group.group_id, topic, partition, committed

    # Administration

    def describe(self, request: Any, **call: Unpack[Call]) -> Decision:
        groups = [
            group_listing.described(
                group_id,
                self.groups.get(group_id),
                version=call["version"],
                is_with_operations=request.include_authorized_operations,
            )
            for group_id in request.groups
        ]
        return Decision().reply(call["token"], {"groups": groups})

    def delete_groups(self, request: Any, **call: Unpack[Call]) -> Decision:
        decision = Decision()
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            group = self.groups.get(group_id)
            error_code = ErrorCode.NONE
            if group is None:
                error_code = ErrorCode.GROUP_ID_NOT_FOUND
            elif group.state is not GroupState.EMPTY:
                error_code = ErrorCode.NON_EMPTY_GROUP
            else:
                decision.records += _tombstones(group)
            results.append({"group_id": group_id, "error_code": error_code})
        return decision.reply(call["token"], {"results": results})

    def forget_topics(self, names: Iterable[str]) -> Decision:
        """Topics were deleted, and what was committed for them with them."""
        deleted = list(names)
        return Decision(
            [
                (offset_key(group.group_id, topic, partition), None)
                for group in self.groups.values()
                for topic in deleted
                for partition in group.offsets.partitions(topic)
            ]
        )

    # Time

    def tick(self, now_ms: int) -> Decision:
        """Do what has come due."""
        decision = Decision()
        rebalance = self._rebalance
        while (timer := self._timers.pop_due(now_ms)) is not None:
            group: ClassicGroup = timer.group
            if timer.kind is TimerKind.SESSION:
                rebalance.session_due(group, timer.member_id, decision, now_ms)
            elif timer.kind is TimerKind.PENDING:
                rebalance.pending_due(group, timer.member_id, decision, now_ms)
                self._forget_if_idle(group)
            elif timer.kind is TimerKind.JOIN:
                rebalance.join_due(group, decision, now_ms)
            elif timer.kind is TimerKind.SYNC:
                rebalance.sync_due(group, decision, now_ms)
            else:
                self._sweep(decision, now_ms)
        return decision

    def next_deadline_ms(self) -> int | None:
        """Call `tick` then; nothing is due before."""
        return self._timers.next_deadline_ms()

    # Durable state

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Make a stored record so. Raises CorruptGroupRecord, and then changes nothing."""
        about = read_key(key)
        if isinstance(about, OffsetKey):
            self._apply_offset(about, value)
        elif isinstance(about, GroupKey):
            self._apply_group(about.group_id, value)

    def recovered(self, now_ms: int) -> Decision:
        """Everything stored has been applied: members get a fresh session to show themselves."""
        decision = Decision()
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalance.keep_session(member, now_ms)
            if len(group.members) > self._settings.group_max_size:
                self._rebalance.begin(group, decision, now_ms, "the group is over its size")
        self._timers.start(self._sweep_timer, now_ms + self._settings.offsets_retention_check_interval_ms)
        return decision

    def append_failed(self, decision: Decision, error_code: ErrorCode, now_ms: int) -> Decision:
        """What to do instead of a decision whose records could not be appended: its requests are refused.

        An assignment that could not be stored is divided again. A group that lost its last member is empty
        all the same: after a crash its members would come back, and expire once more.
        """
        outcome = Decision(replies=[(token, refused(body, error_code)) for token, body in decision.replies])
        for key, value in decision.records:
            about = read_key(key)
            group = self.groups.get(about.group_id) if isinstance(about, GroupKey) else None
            if group is None or value is None:
                continue
            if group.state is GroupState.COMPLETING:
                self._rebalance.fail_assignment(group, outcome, now_ms, error_code)
            elif not group.members:
                self.apply(key, value)
        return outcome

    def _apply_offset(self, about: OffsetKey, value: bytes | None) -> None:
        group = self.groups.get(about.group_id)
        if value is None:
            if group is not None:
                group.offsets.remove(about.topic, about.partition)
            return
        committed = read_offset_value(value)
        if group is None:
            group = self.groups[about.group_id] = ClassicGroup(about.group_id)
        group.offsets.put(about.topic, about.partition, committed)

    def _apply_group(self, group_id: str, value: bytes | None) -> None:
        group = self.groups.get(group_id)
        if value is not None:
            stored = read_group_value(value)
            if group is None:
                group = self.groups[group_id] = ClassicGroup(group_id)
            group.apply(stored)
        elif group is not None:
            self._rebalance.stop(group)
            if group.offsets:
                group.forget_membership()
            else:
                group.state = GroupState.DEAD
                del self.groups[group_id]

    def _join_refusal(self, group_id: str, joiner: Joiner) -> ErrorCode:
        settings = self._settings
        timeouts = range(settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms + 1)
        if not 0 < len(group_id) <= NAME_LENGTH_MAX:
            return ErrorCode.INVALID_GROUP_ID
        if joiner.session_timeout_ms not in timeouts:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not has_bounds(joiner):
            return ErrorCode.INVALID_REQUEST
        if group_id in self.groups:
            return ErrorCode.NONE
        if joiner.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._room_for_groups()

    def _commit_refusal(self, group: ClassicGroup | None, request: Any, version: int) -> ErrorCode:
        if len(request.group_id) > NAME_LENGTH_MAX:
            return ErrorCode.INVALID_GROUP_ID
        error_code = offset_requests.commit_refusal(group, request, version)
        if error_code is ErrorCode.NONE and group is None:
            return self._room_for_groups()
        return error_code

    def _room_for_groups(self) -> ErrorCode:
        return ErrorCode.NONE if len(self.groups) < GROUPS_MAX else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _forget_if_idle(self, group: ClassicGroup) -> None:
        if group.is_idle and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def _sweep(self, decision: Decision, now_ms: int) -> None:
        """Forget expired offsets, and groups that have neither members nor offsets left."""
        if not self._sweep_left:
            self._sweep_left = list(self.groups)
        for group_id in self._sweep_left[-SWEEP_GROUPS_MAX:]:
            group = self.groups.get(group_id)
            if group is not None:
                decision.records += self._expired(group, now_ms)
        del self._sweep_left[-SWEEP_GROUPS_MAX:]
        pause_ms = SWEEP_PAUSE_MS if self._sweep_left else self._settings.offsets_retention_check_interval_ms
        self._timers.start(self._sweep_timer, now_ms + pause_ms)

    def _expired(self, group: ClassicGroup, now_ms: int) -> list[Record]:
        expired = group.expired_offsets(retention_ms=self._retention_ms, now_ms=now_ms)
        is_empty = group.state is GroupState.EMPTY and not group.pending
        if is_empty and len(expired) == sum(1 for _ in group.offsets):
            return _tombstones(group)
        return [(offset_key(group.group_id, topic, partition), None) for topic, partition in expired]

    def list(self, request: Any, **call: Unpack[Call]) -> Decision:
        groups = group_listing.listed(
            self.groups.values(), states=request.states_filter, types=request.types_filter
        )
        return Decision().reply(call["token"], {"error_code": ErrorCode.NONE, "groups": groups})


def _not_a_member(group_id: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _leavers(request: Any, version: int) -> list[tuple[str, str | None, str | None]]:
    """LeaveGroup took one member before version 3, and many since."""
    if version < 3:
        return [(request.member_id, None, None)]
    return [(member.member_id, member.group_instance_id, member.reason) for member in request.members]


def _left(
    leavers: list[tuple[str, str | None, str | None]], codes: list[ErrorCode], version: int
) -> dict[str, Any]:
    if version < 3:
        return {"error_code": codes[0]}
    members = [
        {"member_id": member_id, "group_instance_id": group_instance_id, "error_code": error_code}
        for (member_id, group_instance_id, _), error_code in zip(leavers, codes, strict=True)
    ]
    return {"error_code": ErrorCode.NONE, "members": members}


def _tombstones(group: ClassicGroup) -> list[Record]:
    """The records that delete a group: its offsets first, so that none is left without it."""
    records: list[Record] = [
        (offset_key(group.group_id, topic, partition), None) for topic, partition, _ in group.offsets
    ]
    records.append((group_key(group.group_id), None))
    return records
