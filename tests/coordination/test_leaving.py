"""LeaveGroup: one by one, many at once, by an administrator."""

from types import SimpleNamespace as Struct

import pytest

from millstream.wire.errors import ErrorCode
from tests.coordination.room import Room


@pytest.fixture
def room():
    return Room()


def test_the_others_share_what_a_leaver_had(room):
    leader, follower = room.pair()

    assert room.leave((follower, None)) == [ErrorCode.NONE]

    assert room.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.join(leader)["generation_id"] == 3


def test_the_last_to_leave_leaves_an_empty_group(room):
    member_id = room.lone_member()

    room.leave((member_id, None))

    assert room.state() == "Empty"


def test_that_the_group_is_empty_is_stored_before_the_last_leaver_is_answered(room):
    member_id = room.lone_member()
    leavers = [Struct(member_id=member_id, group_instance_id=None, reason=None)]

    decision = room.decide("leave", Struct(group_id="g", members=leavers), 5, token=100)

    assert len(decision.records) == 1
    assert [token for token, _ in decision.replies] == [100]


def test_many_can_leave_at_once_each_with_its_own_answer(room):
    leader, follower = room.pair()

    codes = room.leave((leader, None), ("ghost", None), (follower, None))

    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert room.state() == "Empty"


def test_the_reply_names_each_leaver_as_it_was_named(room):
    member_id = room.lone_member()
    leavers = [Struct(member_id=member_id, group_instance_id=None, reason="done")]

    token = room.ask("leave", Struct(group_id="g", members=leavers), 5)

    assert room.reply(token) == {
        "error_code": ErrorCode.NONE,
        "members": [{"member_id": member_id, "group_instance_id": None, "error_code": ErrorCode.NONE}],
    }


def test_a_member_named_twice_has_left_the_second_time(room):
    _, follower = room.pair()

    assert room.leave((follower, None), (follower, None)) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_version_3_one_member_leaves_and_the_reply_is_its_error(room, version):
    member_id = room.lone_member()

    first = room.ask("leave", Struct(group_id="g", member_id=member_id), version)
    second = room.ask("leave", Struct(group_id="g", member_id=member_id), version)

    assert room.reply(first) == {"error_code": ErrorCode.NONE}
    assert room.reply(second) == {"error_code": ErrorCode.UNKNOWN_MEMBER_ID}


def test_nobody_leaves_a_group_that_does_not_exist(room):
    assert room.leave(("ghost", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_leaving_without_a_group_id_is_refused(room):
    token = room.ask("leave", Struct(group_id="", members=[]), 5)

    assert room.reply(token)["error_code"] == ErrorCode.INVALID_GROUP_ID


def test_a_member_that_waits_for_a_join_is_answered_when_it_leaves(room):
    leader, _ = room.pair()
    token = room.ask_join(leader)

    room.leave((leader, None))

    assert room.reply(token)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_its_share_is_answered_when_it_leaves(room):
    leader, follower = room.pair()
    room.ask_join(leader)
    room.join(follower)
    token = room.ask_sync(follower)

    room.leave((follower, None))

    assert room.reply(token)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_when_the_one_it_waits_for_leaves(room):
    leader, follower = room.pair()
    token = room.ask_join(leader)

    room.leave((follower, None))

    assert room.reply(token)["generation_id"] == 3


def test_an_id_that_never_joined_can_be_given_back(room):
    leader = room.lone_member()
    pending = room.new_member()

    assert room.leave((pending, None)) == [ErrorCode.NONE]

    assert room.heartbeat(leader) == ErrorCode.NONE
    assert room.join(pending)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_when_the_id_it_waits_for_is_given_back(room):
    leader = room.lone_member()
    pending = room.new_member()
    token = room.ask_join(leader)

    room.leave((pending, None))

    assert room.reply(token)["generation_id"] == 2
