"""DescribeGroups, ListGroups, DeleteGroups: what tools see."""

from types import SimpleNamespace as Struct

import pytest

from millstream.wire.errors import ErrorCode
from tests.coordination.room import ORDERS, SESSION_MS, Room


@pytest.fixture
def room():
    return Room()


def test_a_stable_group_is_described_with_what_its_members_have(room):
    member_id = room.lone_member()

    assert room.described() == {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [
            {
                "member_id": member_id,
                "group_instance_id": None,
                "client_id": "shop",
                "client_host": "/10.0.0.7",
                "member_metadata": ORDERS,
                "member_assignment": b"all",
            }
        ],
        "authorized_operations": -(2**31),
    }


def test_a_group_that_rebalances_is_described_without_metadata(room):
    leader, _ = room.pair()
    room.ask_join(leader)

    described = room.described()

    assert described["group_state"] == "PreparingRebalance"
    assert described["protocol_data"] == ""
    assert [member["member_metadata"] for member in described["members"]] == [b"", b""]


def test_a_group_that_only_has_offsets_is_empty_and_has_no_protocol(room):
    room.commit()

    described = room.described()

    assert described["group_state"] == "Empty"
    assert described["protocol_type"] == ""


def test_a_group_that_does_not_exist_is_not_found(room):
    described = room.described("ghost", version=6)

    assert described["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    assert described["error_message"] == "Group ghost not found."
    assert described["group_state"] == "Dead"


def test_before_version_6_a_group_that_does_not_exist_is_dead_without_an_error(room):
    described = room.described("ghost", version=5)

    assert described["error_code"] == ErrorCode.NONE
    assert described["group_state"] == "Dead"


def test_operations_are_told_to_those_who_ask(room):
    room.commit()
    request = Struct(groups=["g"], include_authorized_operations=True)

    body = room.reply(room.ask("describe", request, 5))

    assert body["groups"][0]["authorized_operations"] == 3_400


def test_every_group_is_listed_with_its_state_and_type(room):
    room.commit(group_id="offsets-only")
    room.lone_member()

    body = room.reply(room.ask("list", Struct(states_filter=[], types_filter=[]), 5))

    assert body == {
        "error_code": ErrorCode.NONE,
        "groups": [
            {
                "group_id": "offsets-only",
                "protocol_type": "",
                "group_state": "Empty",
                "group_type": "classic",
            },
            {
                "group_id": "g",
                "protocol_type": "consumer",
                "group_state": "Stable",
                "group_type": "classic",
            },
        ],
    }


def test_groups_are_listed_by_state_in_any_letter_case(room):
    room.commit(group_id="offsets-only")
    room.lone_member()

    assert room.listed(states=["stable", "Dead"]) == ["g"]
    assert room.listed(states=["EMPTY"]) == ["offsets-only"]


def test_groups_are_listed_by_type(room):
    room.lone_member()

    assert room.listed(types=["Classic"]) == ["g"]
    assert room.listed(types=["consumer"]) == []


def test_a_deleted_group_is_gone_with_its_offsets(room):
    room.commit(41)

    assert room.delete_group() == ErrorCode.NONE

    assert room.listed() == []
    assert room.committed() == -1


def test_a_deleted_group_does_not_come_back_after_a_restart(room):
    member_id = room.lone_member()
    room.commit(41, member_id=member_id, generation_id=1)
    room.leave((member_id, None))
    room.delete_group()

    room.restart()

    assert room.listed() == []


@pytest.mark.parametrize("step", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_a_group_with_members_can_not_be_deleted(room, step):
    reach = {
        "Stable": lambda: room.lone_member(),
        "PreparingRebalance": lambda: room.ask_join(room.pair()[0]),
        "CompletingRebalance": lambda: room.join(room.new_member()),
    }
    reach[step]()
    assert room.state() == step

    assert room.delete_group() == ErrorCode.NON_EMPTY_GROUP


def test_a_group_that_does_not_exist_can_not_be_deleted(room):
    assert room.delete_group() == ErrorCode.GROUP_ID_NOT_FOUND


def test_each_group_of_a_deletion_has_its_own_answer(room):
    room.commit(group_id="a")
    room.lone_member(group_id="b")

    body = room.reply(room.ask("delete_groups", Struct(groups_names=["a", "b", "c", "a"]), 2))

    assert [(result["group_id"], result["error_code"]) for result in body["results"]] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.NON_EMPTY_GROUP),
        ("c", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_ids_handed_out_for_a_deleted_group_are_void(room):
    room.commit()
    member_id = room.new_member()

    room.delete_group()

    assert room.join(member_id)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_nothing_of_a_deleted_group_comes_due(room):
    room.commit()
    room.new_member()
    room.delete_group()
    room.lone_member()

    room.pass_time(SESSION_MS - 1)

    assert room.state() == "Stable"
