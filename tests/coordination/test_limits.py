"""Bounds: a group, and all groups together, take only so much."""

import pytest

from millstream.coordination import classic_join, coordinator
from millstream.wire.errors import ErrorCode
from tests.coordination.room import ORDERS, Room, join_request, subscription


def test_a_full_group_takes_no_more_members():
    room = Room(group_max_size=2)
    room.pair()

    assert room.join()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.join(version=3)["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_a_full_group_join_again():
    room = Room(group_max_size=2)
    leader, follower = room.pair()
    token = room.ask_join(leader)

    room.join(follower)

    assert room.reply(token)["generation_id"] == 3


def test_a_join_that_is_sent_again_needs_no_second_place():
    room = Room(group_max_size=2)
    _, follower = room.pair()
    room.ask_join(follower, protocols={"range": subscription("returns")})

    token = room.ask_join(follower, protocols={"range": subscription("returns")})

    assert room.is_waiting(token)


def test_a_static_member_returns_to_a_full_group():
    room = Room(group_max_size=1)
    member_id = room.join(group_instance_id="one")["member_id"]
    room.sync(member_id, group_instance_id="one")

    assert room.join(group_instance_id="one")["error_code"] == ErrorCode.NONE


def test_a_place_that_becomes_free_is_given_away():
    room = Room(group_max_size=2)
    leader, follower = room.pair()
    room.leave((follower, None))

    assert room.join()["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    assert leader in room.group().members


def test_a_group_hands_out_only_as_many_ids_as_it_has_places():
    room = Room(group_max_size=2)
    room.new_member()
    room.new_member()

    assert room.join()["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_those_who_come_last_find_no_place_with_their_id():
    room = Room(group_max_size=1)
    room.lone_member()
    late = room.new_member()

    assert late == ""
    assert list(room.group().members) == ["shop-uuid1"]


def test_a_pending_id_that_finds_the_group_full_is_not_waited_for():
    room = Room(group_max_size=2)
    leader = room.lone_member()
    first, second = room.new_member(), room.new_member()
    room.ask_join(first)
    room.ask_join(leader)

    assert room.join(second)["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED

    assert room.state() == "CompletingRebalance"


def test_all_groups_together_hand_out_a_bounded_number_of_ids(monkeypatch):
    monkeypatch.setattr(classic_join, "PENDING_MEMBERS_MAX", 2)
    room = Room()
    first = room.new_member(group_id="a")
    room.new_member(group_id="b")

    assert room.join(group_id="c")["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE

    room.join(first, group_id="a")
    assert room.join(group_id="c")["error_code"] == ErrorCode.MEMBER_ID_REQUIRED


def test_no_request_creates_a_group_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(coordinator, "GROUPS_MAX", 1)
    room = Room()
    room.commit(group_id="a")

    assert room.commit(group_id="b") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.join(group_id="b")["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert room.commit(group_id="a") == ErrorCode.NONE


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": {"range": b"x" * 1_048_576}},
        {"protocols": {"a": b"x" * 600_000, "b": b"x" * 600_000}},
        {"protocols": {"x" * 8_001: ORDERS}},
        {"protocol_type": "x" * 8_001},
        {"group_instance_id": "x" * 8_001},
    ],
)
def test_a_member_that_says_too_much_is_refused(fields):
    assert Room().join(**fields)["error_code"] == ErrorCode.INVALID_REQUEST


def test_a_group_id_that_no_record_can_hold_is_refused():
    room = Room()

    assert room.join(group_id="水" * 8_001)["error_code"] == ErrorCode.INVALID_GROUP_ID
    assert room.commit(group_id="水" * 8_001) == ErrorCode.INVALID_GROUP_ID


def test_the_longest_names_that_are_taken_can_be_stored():
    room = Room()
    longest = "水" * 8_000

    member_id = room.join(group_id=longest, group_instance_id=longest, protocols={longest: ORDERS})[
        "member_id"
    ]
    reply = room.sync(member_id, group_id=longest, group_instance_id=longest)
    room.restart()

    assert reply["error_code"] == ErrorCode.NONE
    assert room.state(longest) == "Stable"


def test_a_client_id_of_any_length_makes_a_member_id_that_can_be_stored():
    room = Room()

    decision = room.coordinator.join(
        join_request("g", ""), version=3, token=1, client_id="水" * 30_000, client_host="/h", now_ms=0
    )

    assert decision.replies[0][1]["member_id"] == "水" * 255 + "-uuid1"
