"""JoinGroup: ids, protocols, limits, and who is told what."""

from types import SimpleNamespace as Struct

import pytest

from millstream.wire.errors import ErrorCode
from tests.coordination.room import (
    ORDERS,
    REBALANCE_MS,
    SESSION_MS,
    START_MS,
    Room,
    join_request,
    subscription,
)


def test_a_new_dynamic_member_is_first_given_an_id():
    room = Room()

    reply = room.join(version=4)

    assert reply["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    assert reply["member_id"] == "shop-uuid1"
    assert room.group().members == {}


def test_a_member_that_joins_with_its_id_leads_the_first_generation():
    room = Room()
    member_id = room.new_member()

    reply = room.join(member_id)

    assert reply == {
        "error_code": ErrorCode.NONE,
        "generation_id": 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": member_id,
        "skip_assignment": False,
        "member_id": member_id,
        "members": [{"member_id": member_id, "group_instance_id": None, "metadata": ORDERS}],
    }


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_version_4_a_member_is_taken_at_once(version):
    reply = Room().join(version=version)

    assert reply["error_code"] == ErrorCode.NONE
    assert reply["member_id"] == "shop-uuid1"


def test_a_client_without_a_client_id_gets_a_member_id_too():
    room = Room()

    decision = room.coordinator.join(
        join_request("g", ""), version=9, token=1, client_id=None, client_host="/h", now_ms=START_MS
    )

    assert decision.replies[0][1]["member_id"] == "-uuid1"


def test_version_0_waits_for_a_rebalance_as_long_as_for_a_heartbeat():
    room = Room()

    room.join(version=0, rebalance_timeout_ms=REBALANCE_MS)

    assert room.group().rebalance_timeout_ms == SESSION_MS


def test_an_id_that_nobody_uses_is_forgotten_after_the_session_timeout():
    room = Room()
    member_id = room.new_member()

    room.pass_time(SESSION_MS)

    assert room.join(member_id)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_only_handed_out_ids_is_forgotten_with_the_last_of_them():
    room = Room()
    room.new_member()

    room.pass_time(SESSION_MS)

    assert room.listed() == []


def test_a_rebalance_waits_for_a_member_that_has_its_id_but_has_not_joined():
    room = Room()
    leader = room.lone_member()
    late = room.new_member()

    waiting = room.ask_join(leader)

    assert room.is_waiting(waiting)
    room.join(late)
    assert room.reply(waiting)["generation_id"] == 2


def test_a_rebalance_goes_on_when_the_id_it_waits_for_is_given_up():
    room = Room()
    leader = room.lone_member()
    room.new_member()
    waiting = room.ask_join(leader)

    room.pass_time(SESSION_MS)

    assert room.reply(waiting)["generation_id"] == 2


@pytest.mark.parametrize("version", [0, 4, 9])
def test_an_empty_group_id_is_refused(version):
    assert Room().join(group_id="", version=version)["error_code"] == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_a_session_timeout_outside_the_limits_is_refused(session_timeout_ms):
    reply = Room().join(session_timeout_ms=session_timeout_ms)

    assert reply["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_a_session_timeout_at_the_limits_is_taken(session_timeout_ms):
    reply = Room().join(session_timeout_ms=session_timeout_ms, version=3)

    assert reply["error_code"] == ErrorCode.NONE


def test_the_limits_of_the_session_timeout_are_settings():
    room = Room(group_min_session_timeout_ms=1, group_max_session_timeout_ms=10)

    assert room.join(session_timeout_ms=1, version=3)["error_code"] == ErrorCode.NONE
    assert room.join(session_timeout_ms=11)["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_member_id_of_a_group_that_does_not_exist_is_unknown():
    reply = Room().join("ghost")

    assert reply["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert reply["member_id"] == "ghost"


def test_a_member_id_that_the_group_does_not_have_is_unknown():
    room = Room()
    room.lone_member()

    assert room.join("ghost")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_shares_no_protocol_with_the_group_is_refused():
    room = Room()
    room.lone_member(protocols={"range": ORDERS})

    reply = room.join(protocols={"roundrobin": ORDERS})

    assert reply["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_of_another_protocol_type_is_refused():
    room = Room()
    room.lone_member()

    assert room.join(protocol_type="connect")["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": {}}])
def test_the_first_member_must_speak_something(fields):
    assert Room().join(**fields)["error_code"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_refused_first_member_leaves_no_group_behind():
    room = Room()

    room.join(protocols={})

    assert room.listed() == []


def test_the_protocol_is_the_one_that_most_members_prefer_and_all_speak():
    room = Room(group_initial_rebalance_delay_ms=100)
    first = room.ask_join(version=3, protocols={"alone": ORDERS, "range": ORDERS, "sticky": ORDERS})
    room.ask_join(version=3, protocols={"sticky": ORDERS, "range": ORDERS})
    room.ask_join(version=3, protocols={"sticky": ORDERS, "range": ORDERS})

    room.pass_time(1_000)

    assert room.reply(first)["protocol_name"] == "sticky"


def test_only_the_leader_is_told_who_the_members_are():
    room = Room()
    leader = room.lone_member()
    follower = room.new_member()
    followers_join = room.ask_join(follower, protocols={"range": subscription("returns")})

    leaders_reply = room.join(leader)

    assert [member["member_id"] for member in leaders_reply["members"]] == [leader, follower]
    assert [member["metadata"] for member in leaders_reply["members"]] == [ORDERS, subscription("returns")]
    assert room.reply(followers_join)["members"] == []
    assert room.reply(followers_join)["leader"] == leader


def test_a_follower_that_joins_again_unchanged_gets_the_current_generation():
    room = Room()
    leader, follower = room.pair()

    reply = room.join(follower)

    assert reply["error_code"] == ErrorCode.NONE
    assert reply["generation_id"] == 2
    assert reply["leader"] == leader
    assert reply["members"] == []
    assert room.state() == "Stable"


def test_a_follower_that_joins_again_with_other_metadata_starts_a_rebalance():
    room = Room()
    _, follower = room.pair()

    token = room.ask_join(follower, protocols={"range": subscription("returns")})

    assert room.is_waiting(token)
    assert room.state() == "PreparingRebalance"


def test_a_follower_that_prefers_its_protocols_in_another_order_starts_a_rebalance():
    room = Room()
    _, follower = room.pair(protocols={"range": ORDERS, "sticky": ORDERS})

    token = room.ask_join(follower, protocols={"sticky": ORDERS, "range": ORDERS})

    assert room.is_waiting(token)


def test_a_leader_that_joins_again_starts_a_rebalance():
    room = Room()
    leader, _ = room.pair()

    token = room.ask_join(leader)

    assert room.is_waiting(token)
    assert room.state() == "PreparingRebalance"


def test_a_member_that_missed_the_join_reply_gets_it_again_while_the_leader_assigns():
    room = Room()
    member_id = room.new_member()
    first = room.join(member_id)

    assert room.join(member_id) == first
    assert room.state() == "CompletingRebalance"


def test_new_metadata_while_the_leader_assigns_starts_over():
    room = Room()
    member_id = room.new_member()
    room.join(member_id)

    reply = room.join(member_id, protocols={"range": subscription("returns")})

    assert reply["generation_id"] == 2


def test_a_join_that_is_sent_again_answers_the_first_try_too():
    room = Room()
    _, follower = room.pair()
    first = room.ask_join(follower, protocols={"range": subscription("returns")})

    second = room.ask_join(follower, protocols={"range": subscription("returns")})

    assert room.reply(first)["error_code"] == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.is_waiting(second)


def test_errors_name_no_protocol_in_the_words_of_the_version():
    room = Room()

    assert room.join("ghost", version=6)["protocol_name"] == ""
    assert room.join("ghost", version=7)["protocol_name"] is None


def test_a_name_given_twice_counts_as_it_came_first():
    room = Room()

    request = join_request("g", "")
    request.protocols = [Struct(name="range", metadata=b"1"), Struct(name="range", metadata=b"2")]

    token = room.ask("join", request, 3)

    assert room.reply(token)["members"][0]["metadata"] == b"1"


def test_the_reason_of_a_join_is_kept_for_whoever_wonders():
    room = Room()
    leader, _ = room.pair()

    room.ask_join(leader, reason="topics changed")

    assert room.group().rebalance_reason == f"{leader} joined again: topics changed"
