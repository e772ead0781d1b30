"""SyncGroup: the leader divides the work, everybody gets a share."""

import pytest

from millstream.coordination import classic_session
from millstream.coordination.group_records import read_group_value
from millstream.wire.errors import ErrorCode
from tests.coordination.room import REBALANCE_MS, SESSION_MS, Room, subscription, sync_request


@pytest.fixture
def room():
    return Room()


@pytest.fixture
def assigning(room):
    """A leader and a follower that have joined generation 3; nothing is assigned."""
    leader, follower = room.pair()
    room.ask_join(leader)
    room.join(follower)
    return leader, follower


def test_followers_wait_until_the_leader_has_assigned(room, assigning):
    leader, follower = assigning
    token = room.ask_sync(follower)
    assert room.is_waiting(token)

    leaders_reply = room.sync(leader, assignments={leader: b"1", follower: b"2"})

    assert leaders_reply == {
        "error_code": ErrorCode.NONE,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": b"1",
    }
    assert room.reply(token)["assignment"] == b"2"
    assert room.state() == "Stable"


def test_the_assignment_is_stored_before_anybody_is_told(room, assigning):
    leader, follower = assigning
    room.ask_sync(follower)
    request = sync_request("g", leader, generation_id=3, assignments={leader: b"1", follower: b"2"})

    decision = room.decide("sync", request, 5, token=100)

    ((_, value),) = decision.records
    assert {member.member_id: member.assignment for member in read_group_value(value).members} == {
        leader: b"1",
        follower: b"2",
    }
    assert len(decision.replies) == 2


def test_an_assignment_counts_only_once_its_record_is_applied(room, assigning):
    leader, _ = assigning
    request = sync_request("g", leader, generation_id=3, assignments={leader: b"1"})

    room.decide("sync", request, 5, token=100)

    assert room.state() == "CompletingRebalance"


def test_a_sync_of_a_stable_group_waits_for_the_stored_assignment(room, assigning):
    leader, follower = assigning
    room.ask_sync(leader, assignments={follower: b"2"})

    decision = room.decide("sync", sync_request("g", follower, generation_id=3), 5, token=100)

    assert decision.records == []
    assert decision.after_earlier


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(room, assigning):
    leader, follower = assigning
    room.ask_sync(leader, assignments={leader: b"1"})

    assert room.sync(follower)["assignment"] == b""


def test_assignments_of_strangers_are_ignored(room, assigning):
    leader, _ = assigning

    room.ask_sync(leader, assignments={leader: b"1", "ghost": b"x"})

    assert "ghost" not in room.group().members


def test_a_sync_that_is_repeated_gets_the_same_assignment(room):
    leader, _ = room.pair()

    assert room.sync(leader)["assignment"] == b"left"


def test_a_sync_that_is_sent_again_answers_the_first_try_too(room, assigning):
    _, follower = assigning
    first = room.ask_sync(follower)

    second = room.ask_sync(follower)

    assert room.reply(first)["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.is_waiting(second)


def test_a_sync_during_a_rebalance_is_sent_back_to_join(room):
    leader, follower = room.pair()
    room.ask_join(leader)

    assert room.sync(follower)["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("generation_id", [-1, 2, 4])
def test_a_sync_of_another_generation_is_refused(room, assigning, generation_id):
    leader, _ = assigning

    reply = room.sync(leader, generation_id=generation_id)

    assert reply["error_code"] == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("said", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_a_sync_in_another_protocol_is_refused(room, assigning, said):
    leader, _ = assigning

    assert room.sync(leader, **said)["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_that_names_the_groups_protocol_is_taken(room, assigning):
    leader, _ = assigning

    reply = room.sync(leader, protocol_type="consumer", protocol_name="range")

    assert reply["error_code"] == ErrorCode.NONE


def test_a_stranger_can_not_sync(room):
    room.lone_member()

    assert room.sync("ghost")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_can_sync_with_a_group_that_does_not_exist(room):
    assert room.sync("ghost")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_without_a_group_id_is_refused(room):
    assert room.sync("ghost", group_id="")["error_code"] == ErrorCode.INVALID_GROUP_ID


def test_a_leader_that_never_assigns_is_removed_after_the_rebalance_timeout(room):
    leader, follower = room.pair(session_timeout_ms=2 * REBALANCE_MS)
    room.ask_join(leader, session_timeout_ms=2 * REBALANCE_MS)
    room.join(follower, session_timeout_ms=2 * REBALANCE_MS)
    token = room.ask_sync(follower)

    room.pass_time(REBALANCE_MS)

    assert room.reply(token)["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(room.group().members) == [follower]


def test_a_follower_that_never_asks_for_its_share_is_removed_after_the_rebalance_timeout(room):
    leader, follower = room.pair(session_timeout_ms=2 * REBALANCE_MS)
    room.ask_join(leader, session_timeout_ms=2 * REBALANCE_MS)
    room.join(follower, session_timeout_ms=2 * REBALANCE_MS)
    room.sync(leader, assignments={leader: b"1"})

    room.pass_time(REBALANCE_MS)

    assert list(room.group().members) == [leader]
    assert room.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_all_asked_for_their_share_are_left_alone(room):
    leader, follower = room.pair(session_timeout_ms=2 * REBALANCE_MS)

    room.pass_time(REBALANCE_MS)

    assert set(room.group().members) == {leader, follower}
    assert room.state() == "Stable"


def test_a_member_that_waits_for_its_share_needs_no_heartbeats(room, assigning):
    leader, follower = assigning
    token = room.ask_sync(follower)

    room.pass_time(SESSION_MS - 1_000)
    room.heartbeat(leader)
    room.pass_time(SESSION_MS - 1_000)

    assert room.is_waiting(token)


def test_a_member_that_waited_for_its_share_in_vain_gets_a_fresh_session(room):
    leader, follower = room.pair(session_timeout_ms=20_000)
    room.ask_join(leader, session_timeout_ms=20_000)
    room.join(follower, session_timeout_ms=6_000, protocols={"range": subscription("returns")})
    room.ask_sync(follower)
    room.pass_time(15_000)
    room.ask_join(leader, protocols={"range": subscription("returns")})

    room.pass_time(5_999)
    assert follower in room.group().members
    room.pass_time(1)

    assert follower not in room.group().members


def test_an_assignment_too_large_for_a_record_is_refused_and_divided_again(room, assigning, monkeypatch):
    monkeypatch.setattr(classic_session, "GROUP_RECORD_BYTES_MAX", 1_000)
    leader, _ = assigning

    reply = room.sync(leader, assignments={leader: b"x" * 1_001})

    assert reply["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert room.state() == "PreparingRebalance"
