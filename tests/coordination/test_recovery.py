"""A restart: what is stored comes back, what is not is made up for by the clients."""

from types import SimpleNamespace as Struct

from millstream.coordination.group_records import group_key, offset_key
from millstream.wire.errors import ErrorCode
from tests.coordination.room import (
    ORDERS,
    REBALANCE_MS,
    SESSION_MS,
    Room,
    commit_request,
    join_request,
    subscription,
    sync_request,
)


def test_consumers_go_on_after_a_restart_without_a_rebalance():
    room = Room()
    leader, follower = room.pair()

    room.restart()

    assert room.heartbeat(leader, generation_id=2) == ErrorCode.NONE
    assert room.heartbeat(follower, generation_id=2) == ErrorCode.NONE
    assert room.commit(member_id=follower, generation_id=2) == ErrorCode.NONE
    assert room.sync(follower)["assignment"] == b"right"


def test_members_have_a_whole_session_after_a_restart_to_show_themselves():
    room = Room()
    leader, follower = room.pair()
    room.pass_time(SESSION_MS - 1)
    room.restart()

    room.pass_time(SESSION_MS - 1)
    assert set(room.group().members) == {leader, follower}
    room.pass_time(1)

    assert room.state() == "Empty"


def test_a_restarted_group_describes_its_members_as_before():
    room = Room()
    room.pair()
    before = room.described()

    room.restart()

    assert room.described() == before


def test_a_leader_is_still_the_leader_after_a_restart():
    room = Room()
    leader, _ = room.pair()
    room.restart()

    token = room.ask_join(leader)

    assert room.is_waiting(token)
    assert room.state() == "PreparingRebalance"


def test_a_member_that_spoke_more_protocols_joins_a_restarted_group_again():
    room = Room()
    both = {"range": ORDERS, "sticky": ORDERS}
    leader, follower = room.pair(protocols=both)
    room.restart()

    room.ask_join(leader, protocols=both)

    assert room.join(follower, protocols=both)["protocol_name"] == "range"


def test_a_generation_that_was_not_assigned_is_lost_and_its_members_join_again():
    room = Room()
    leader, follower = room.pair()
    room.ask_join(leader)
    room.join(follower)
    room.restart()

    assert room.sync(leader, generation_id=3)["error_code"] == ErrorCode.ILLEGAL_GENERATION
    token = room.ask_join(leader)
    room.ask_join(follower, protocols={"range": subscription("returns")})

    assert room.reply(token)["generation_id"] == 3


def test_an_id_handed_out_before_a_restart_is_void():
    room = Room()
    member_id = room.new_member()

    room.restart()

    assert room.join(member_id)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_keeps_its_generation_over_a_restart():
    room = Room()
    member_id = room.lone_member()
    room.leave((member_id, None))
    room.restart()

    assert room.state() == "Empty"
    assert room.join(version=3)["generation_id"] == 3


def test_subscriptions_are_known_after_a_restart():
    room = Room()
    room.lone_member()
    room.commit(41, topic="returns")

    room.restart()

    assert room.delete_offset("orders") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_a_group_that_is_over_a_lowered_size_rebalances_and_keeps_the_first_to_join():
    room = Room()
    leader, follower = room.pair()
    room.restart(group_max_size=1)
    token = room.ask_join(follower)

    assert room.join(leader)["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED

    assert room.reply(token)["leader"] == follower


def test_rebalance_timeouts_are_kept_over_a_restart():
    room = Room()
    room.lone_member()

    room.restart()

    assert room.group().rebalance_timeout_ms == REBALANCE_MS


def test_a_deleted_group_whose_offsets_outlived_it_keeps_them():
    room = Room()
    member_id = room.lone_member()
    room.commit(41, member_id=member_id, generation_id=1)

    room.coordinator.apply(group_key("g"), None)

    assert room.committed() == 41
    assert room.described()["protocol_type"] == ""


def test_deletions_of_what_is_not_there_change_nothing():
    room = Room()

    room.coordinator.apply(group_key("g"), None)
    room.coordinator.apply(offset_key("g", "orders", 0), None)

    assert room.listed() == []


def test_records_of_other_coordinators_are_left_to_them():
    room = Room()
    consumer_group_metadata_key = b"\x00\x03\x00\x01g"

    room.coordinator.apply(consumer_group_metadata_key, b"\x00\x00anything")

    assert room.listed() == []


# Appends that fail


def fail(room, kind, request, version=9, *, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    decision = room.decide(kind, request, version, token=100)
    outcome = room.coordinator.append_failed(decision, error_code, room.now_ms)
    room.send(outcome)
    return outcome


def test_a_commit_that_can_not_be_stored_is_refused_and_changes_nothing():
    room = Room()
    room.commit(40)

    fail(room, "commit_offsets", commit_request(41))

    partition = room.reply(100)["topics"][0]["partitions"][0]
    assert partition == {"partition_index": 0, "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert room.committed() == 40


def test_an_assignment_that_can_not_be_stored_is_refused_and_divided_again():

    room = Room()
    leader, follower = room.pair()
    room.ask_join(leader)
    room.join(follower)
    followers_sync = room.ask_sync(follower)

    fail(room, "sync", sync_request("g", leader, generation_id=3, assignments={leader: b"1"}))

    assert room.reply(100)["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.reply(followers_sync)["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.state() == "PreparingRebalance"
    assert room.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_can_not_be_stored_as_empty_is_empty_until_the_next_restart():

    room = Room()
    member_id = room.lone_member()
    leavers = [Struct(member_id=member_id, group_instance_id=None, reason=None)]

    fail(room, "leave", Struct(group_id="g", members=leavers), 5)

    assert room.reply(100)["members"][0]["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.state() == "Empty"
    room.restart()
    assert room.state() == "Stable"


def test_a_static_member_whose_new_id_can_not_be_stored_tries_again():

    room = Room()
    member_id = room.join(group_instance_id="one")["member_id"]
    room.sync(member_id, group_instance_id="one", assignments={member_id: b"1"})

    fail(room, "join", join_request("g", "", group_instance_id="one"))

    assert room.reply(100)["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = room.join(group_instance_id="one")
    assert again["error_code"] == ErrorCode.NONE
    assert room.sync(again["member_id"], group_instance_id="one")["assignment"] == b"1"
