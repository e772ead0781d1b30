"""From one generation to the next: who is waited for, and for how long."""

from millstream.wire.errors import ErrorCode
from tests.coordination.room import REBALANCE_MS, SESSION_MS, Room, subscription

RETURNS = {"range": subscription("returns")}


def keep_alive(room, member_id, *, until_ms, group_instance_id=None):
    """Send heartbeats every three seconds until `until_ms` from now."""
    for _ in range(until_ms // 3_000):
        room.pass_time(3_000)
        room.heartbeat(member_id, group_instance_id=group_instance_id)


def test_a_new_member_makes_the_others_join_again():
    room = Room()
    leader = room.lone_member()
    late = room.new_member()

    token = room.ask_join(late)

    assert room.is_waiting(token)
    assert room.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_ends_when_all_members_have_joined():
    room = Room()
    leader = room.lone_member()
    late = room.new_member()
    lates_join = room.ask_join(late)

    leaders_reply = room.join(leader)

    assert leaders_reply["generation_id"] == 2
    assert room.reply(lates_join)["generation_id"] == 2
    assert room.state() == "CompletingRebalance"


def test_members_that_do_not_join_again_are_removed_after_the_rebalance_timeout():
    room = Room()
    leader, follower = room.pair()
    token = room.ask_join(follower, protocols=RETURNS)
    keep_alive(room, leader, until_ms=REBALANCE_MS)

    room.pass_time(3_000)

    assert room.reply(token)["generation_id"] == 3
    assert room.reply(token)["leader"] == follower
    assert list(room.group().members) == [follower]


def test_a_rebalance_takes_as_long_as_its_slowest_member_may():
    room = Room()
    leader, follower = room.pair(rebalance_timeout_ms=20_000)
    token = room.ask_join(follower, protocols=RETURNS, rebalance_timeout_ms=40_000)
    keep_alive(room, leader, until_ms=39_000)

    assert room.is_waiting(token)
    room.pass_time(1_000)
    assert room.reply(token)["generation_id"] == 3


def test_a_member_whose_session_ends_is_not_waited_for():
    room = Room()
    _, follower = room.pair()
    token = room.ask_join(follower, protocols=RETURNS)

    room.pass_time(SESSION_MS)

    assert room.reply(token)["generation_id"] == 3


def test_a_member_that_waits_for_the_others_needs_no_heartbeats():
    room = Room()
    leader, follower = room.pair()
    token = room.ask_join(follower, protocols=RETURNS)

    keep_alive(room, leader, until_ms=3 * SESSION_MS)

    assert room.is_waiting(token)
    assert set(room.group().members) == {leader, follower}


def test_a_member_that_waited_gets_a_fresh_session():
    room = Room()
    leader, follower = room.pair()
    room.ask_join(follower, protocols=RETURNS)
    keep_alive(room, leader, until_ms=3 * SESSION_MS)
    room.join(leader)

    room.pass_time(SESSION_MS - 1)

    assert set(room.group().members) == {leader, follower}


def test_a_new_member_that_waits_too_long_is_told_to_try_again():
    room = Room()
    leader = room.lone_member(rebalance_timeout_ms=600_000)
    token = room.ask_join(version=3, rebalance_timeout_ms=600_000)

    keep_alive(room, leader, until_ms=300_000)

    assert room.reply(token)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(room.group().members) == [leader]


def test_the_leader_changes_only_when_it_does_not_join_again():
    room = Room()
    leader, follower = room.pair()
    followers_join = room.ask_join(follower, protocols=RETURNS)

    room.join(leader)

    assert room.reply(followers_join)["leader"] == leader


def test_a_group_that_lost_all_members_is_empty_in_a_new_generation():
    room = Room()
    room.lone_member()

    room.pass_time(SESSION_MS)

    assert room.state() == "Empty"
    assert room.generation() == 2


def test_the_next_member_of_an_empty_group_continues_its_generations():
    room = Room()
    room.lone_member()
    room.pass_time(SESSION_MS)

    member_id = room.new_member()

    assert room.join(member_id)["generation_id"] == 3


def test_an_empty_group_may_change_its_protocol_type():
    room = Room()
    room.lone_member()
    room.pass_time(SESSION_MS)

    reply = room.join(version=3, protocol_type="connect", protocols={"compatible": b""})

    assert reply["protocol_type"] == "connect"


def test_the_first_rebalance_of_an_empty_group_can_wait_for_more_members():
    room = Room(group_initial_rebalance_delay_ms=3_000)
    first = room.ask_join(version=3)
    room.pass_time(1_000)
    second = room.ask_join(version=3)

    room.pass_time(1_999)
    assert room.is_waiting(first)
    room.pass_time(3_001)

    assert len(room.reply(first)["members"]) == 2
    assert room.reply(second)["generation_id"] == 1


def test_the_first_rebalance_waits_again_only_if_more_members_came():
    room = Room(group_initial_rebalance_delay_ms=3_000)
    token = room.ask_join(version=3)

    room.pass_time(3_000)

    assert room.reply(token)["generation_id"] == 1


def test_the_first_rebalance_never_waits_longer_than_the_rebalance_timeout():
    room = Room(group_initial_rebalance_delay_ms=3_000)
    token = room.ask_join(version=3, rebalance_timeout_ms=7_000)
    room.pass_time(2_500)
    room.ask_join(version=3, rebalance_timeout_ms=7_000)
    room.pass_time(2_500)
    room.ask_join(version=3, rebalance_timeout_ms=7_000)
    room.pass_time(1_500)
    room.ask_join(version=3, rebalance_timeout_ms=7_000)

    room.pass_time(500)

    assert room.reply(token)["generation_id"] == 1
    assert len(room.reply(token)["members"]) == 4


def test_by_default_the_first_member_does_not_wait():
    assert Room().join(version=3)["generation_id"] == 1


def test_members_that_leave_before_the_first_generation_leave_an_empty_group():
    room = Room(group_initial_rebalance_delay_ms=3_000)
    token = room.ask_join(version=3)
    room.leave(("shop-uuid1", None))

    room.pass_time(3_000)

    assert room.reply(token)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.state() == "Empty"


def test_a_rebalance_while_the_leader_assigns_sends_the_waiting_members_back():
    room = Room()
    leader, follower = room.pair()
    room.ask_join(leader)
    room.join(follower)
    followers_sync = room.ask_sync(follower)

    room.ask_join(version=3)

    assert room.reply(followers_sync)["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.state() == "PreparingRebalance"
