"""Heartbeat: the session of a member, and how it ends."""

import pytest

from millstream.wire.errors import ErrorCode
from tests.coordination.room import SESSION_MS, Room


@pytest.fixture
def room():
    return Room()


def test_a_member_that_sends_heartbeats_stays(room):
    member_id = room.lone_member()
    room.pass_time(SESSION_MS - 1)
    assert room.heartbeat(member_id) == ErrorCode.NONE

    room.pass_time(SESSION_MS - 1)

    assert list(room.group().members) == [member_id]


def test_a_member_that_is_silent_for_its_session_timeout_is_removed(room):
    member_id = room.lone_member()

    room.pass_time(SESSION_MS)

    assert room.heartbeat(member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_removed_leaves_its_share_to_the_others(room):
    leader, _ = room.pair()
    room.pass_time(SESSION_MS - 1)
    room.heartbeat(leader)

    room.pass_time(1)

    assert list(room.group().members) == [leader]
    assert room.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_heartbeat_during_a_rebalance_keeps_the_session(room):
    leader, follower = room.pair()
    room.ask_join(leader)
    room.pass_time(SESSION_MS - 1)
    assert room.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS

    room.pass_time(SESSION_MS - 1)

    assert set(room.group().members) == {leader, follower}


def test_a_heartbeat_while_the_leader_assigns_is_welcome(room):
    member_id = room.new_member()
    room.join(member_id)

    assert room.heartbeat(member_id) == ErrorCode.NONE


@pytest.mark.parametrize("generation_id", [-1, 0, 2])
def test_a_heartbeat_of_another_generation_is_refused(room, generation_id):
    member_id = room.lone_member()

    assert room.heartbeat(member_id, generation_id=generation_id) == ErrorCode.ILLEGAL_GENERATION


def test_a_heartbeat_of_another_generation_does_not_keep_the_session(room):
    member_id = room.lone_member()
    room.pass_time(SESSION_MS - 1)
    room.heartbeat(member_id, generation_id=0)

    room.pass_time(1)

    assert room.state() == "Empty"


def test_a_stranger_has_no_session(room):
    room.lone_member()

    assert room.heartbeat("ghost") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_has_not_joined_has_no_session(room):
    member_id = room.new_member()

    assert room.heartbeat(member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_does_not_exist_has_no_sessions(room):
    assert room.heartbeat("ghost") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_without_a_group_id_is_refused(room):
    assert room.heartbeat("ghost", group_id="") == ErrorCode.INVALID_GROUP_ID


def test_a_commit_keeps_the_session_like_a_heartbeat(room):
    member_id = room.lone_member()
    room.pass_time(SESSION_MS - 1)
    room.commit(member_id=member_id, generation_id=1)

    room.pass_time(SESSION_MS - 1)

    assert list(room.group().members) == [member_id]
