"""Static members (KIP-345): a process that restarts keeps its place."""

import pytest

from millstream.coordination.group_records import read_group_value
from millstream.wire.errors import ErrorCode
from tests.coordination.room import ORDERS, REBALANCE_MS, SESSION_MS, Room, join_request, subscription


@pytest.fixture
def room():
    return Room()


def static_pair(room, **fields):
    """Members "one" (leader) and "two" of a stable group with assignments b'1' and b'2'."""
    one = room.join(group_instance_id="one", **fields)["member_id"]
    room.sync(one, group_instance_id="one", assignments={one: b"0"})
    twos_join = room.ask_join(group_instance_id="two", **fields)
    room.join(one, group_instance_id="one", **fields)
    two = room.reply(twos_join)["member_id"]
    room.ask_sync(one, group_instance_id="one", assignments={one: b"1", two: b"2"})
    room.sync(two, group_instance_id="two")
    return one, two


def test_a_static_member_gets_its_id_at_its_first_join(room):
    reply = room.join(group_instance_id="one")

    assert reply["error_code"] == ErrorCode.NONE
    assert reply["member_id"] == "one-uuid1"
    assert reply["members"][0]["group_instance_id"] == "one"


def test_a_static_member_that_returns_gets_its_assignment_without_a_rebalance(room):
    _, two = static_pair(room)

    reply = room.join(group_instance_id="two")

    assert reply["error_code"] == ErrorCode.NONE
    assert reply["generation_id"] == 2
    assert reply["member_id"] != two
    assert room.state() == "Stable"
    assert room.sync(reply["member_id"], group_instance_id="two")["assignment"] == b"2"


def test_the_new_id_of_a_static_member_is_stored_before_it_is_told(room):
    one, _ = static_pair(room)

    decision = room.decide("join", join_request("g", "", group_instance_id="two"), 9, token=100)

    ((_, value),) = decision.records
    stored = read_group_value(value)
    new_id = decision.replies[0][1]["member_id"]
    assert {member.member_id: member.assignment for member in stored.members} == {one: b"1", new_id: b"2"}
    assert stored.generation == 2


def test_the_former_self_of_a_static_member_is_fenced(room):
    _, two = static_pair(room)
    room.join(group_instance_id="two")

    assert room.heartbeat(two, group_instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
    assert room.sync(two, group_instance_id="two")["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert room.join(two, group_instance_id="two")["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert room.leave((two, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert (
        room.commit(member_id=two, generation_id=2, group_instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
    )


def test_a_former_self_that_waits_is_fenced_at_once(room):
    _, two = static_pair(room)
    token = room.ask_join(two, group_instance_id="two", protocols={"range": subscription("returns")})

    room.ask_join(group_instance_id="two")

    assert room.reply(token)["error_code"] == ErrorCode.FENCED_INSTANCE_ID
    assert room.reply(token)["member_id"] == two


def test_a_former_self_that_waits_for_its_share_is_fenced_at_once(room):
    one, two = static_pair(room)
    room.ask_join(one, group_instance_id="one")
    room.join(two, group_instance_id="two")
    token = room.ask_sync(two, group_instance_id="two")

    room.ask_join(group_instance_id="two")

    assert room.reply(token)["error_code"] == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_that_returns_is_told_to_leave_the_assignment_alone(room):
    _, two = static_pair(room)

    reply = room.join(group_instance_id="one", version=9)

    assert reply["skip_assignment"]
    assert reply["leader"] == reply["member_id"]
    assert [member["member_id"] for member in reply["members"]] == [two, reply["member_id"]]


def test_a_static_follower_that_returns_has_nothing_to_skip(room):
    static_pair(room)

    reply = room.join(group_instance_id="two", version=9)

    assert not reply["skip_assignment"]
    assert reply["members"] == []


@pytest.mark.parametrize("version", [5, 8])
def test_before_version_9_a_static_leader_that_returns_takes_itself_for_a_follower(room, version):
    one, _ = static_pair(room)

    reply = room.join(group_instance_id="one", version=version)

    assert reply["leader"] == one
    assert reply["members"] == []
    assert room.group().leader == reply["member_id"]


def test_a_static_member_that_returns_with_other_topics_starts_a_rebalance(room):
    static_pair(room)

    token = room.ask_join(group_instance_id="two", protocols={"range": subscription("orders", "returns")})

    assert room.is_waiting(token)
    assert room.state() == "PreparingRebalance"


def test_a_static_member_that_returns_without_its_former_partitions_starts_no_rebalance(room):
    static_pair(room, protocols={"range": ORDERS + b"owned partitions"})

    reply = room.join(group_instance_id="two", protocols={"range": ORDERS})

    assert reply["error_code"] == ErrorCode.NONE
    assert room.state() == "Stable"


def test_a_static_member_that_changes_the_groups_protocol_starts_a_rebalance(room):
    both = {"range": ORDERS, "sticky": ORDERS}
    static_pair(room, protocols=both)

    room.ask_join(group_instance_id="two", protocols={"sticky": ORDERS})

    assert room.state() == "PreparingRebalance"


def test_a_static_member_that_returns_during_a_rebalance_joins_it(room):
    one, _ = static_pair(room)
    ones_join = room.ask_join(one, group_instance_id="one")

    reply = room.join(group_instance_id="two")

    assert reply["generation_id"] == 3
    assert [member["group_instance_id"] for member in room.reply(ones_join)["members"]] == ["one", "two"]


def test_a_static_member_that_returns_while_the_leader_assigns_starts_over(room):
    one, two = static_pair(room)
    room.ask_join(one, group_instance_id="one")
    room.join(two, group_instance_id="two")

    token = room.ask_join(group_instance_id="two")

    assert room.is_waiting(token)
    assert room.heartbeat(one, group_instance_id="one") == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_is_away_keeps_its_place_in_a_rebalance(room):
    one, two = static_pair(room, session_timeout_ms=4 * REBALANCE_MS)
    token = room.ask_join(one, group_instance_id="one", session_timeout_ms=4 * REBALANCE_MS)

    room.pass_time(REBALANCE_MS)

    assert room.reply(token)["generation_id"] == 3
    assert [member["member_id"] for member in room.reply(token)["members"]] == [one, two]


def test_a_static_member_that_is_away_loses_its_place_with_its_session(room):
    one, _ = static_pair(room)
    room.pass_time(SESSION_MS - 1)
    room.heartbeat(one, group_instance_id="one")

    room.pass_time(1)

    assert list(room.group().members) == [one]


def test_a_static_member_that_does_not_fetch_its_new_assignment_loses_its_place(room):
    one, _ = static_pair(room, session_timeout_ms=4 * REBALANCE_MS)
    room.ask_join(one, group_instance_id="one", session_timeout_ms=4 * REBALANCE_MS)
    room.pass_time(REBALANCE_MS)
    room.sync(one, group_instance_id="one")

    room.pass_time(REBALANCE_MS)

    assert list(room.group().members) == [one]


def test_another_leads_when_the_static_leader_is_away(room):
    _, two = static_pair(room, session_timeout_ms=4 * REBALANCE_MS)
    token = room.ask_join(
        two,
        group_instance_id="two",
        session_timeout_ms=4 * REBALANCE_MS,
        protocols={"range": subscription("returns")},
    )

    room.pass_time(REBALANCE_MS)

    assert room.reply(token)["leader"] == two
    assert len(room.reply(token)["members"]) == 2


def test_a_rebalance_that_no_static_member_joins_ends_with_their_sessions(room):
    static_pair(room, session_timeout_ms=4 * REBALANCE_MS)
    dynamic = room.ask_join(version=3, rebalance_timeout_ms=REBALANCE_MS)
    room.leave((room.group().leader, "one"))
    room.leave(("shop-uuid3", None))

    room.pass_time(3 * REBALANCE_MS)
    assert room.state() == "PreparingRebalance"
    room.pass_time(REBALANCE_MS)

    assert room.state() == "Empty"
    assert room.reply(dynamic)["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_without_rebalance_timeout_does_not_keep_the_clock_busy(room):
    static_pair(room, session_timeout_ms=4 * REBALANCE_MS, rebalance_timeout_ms=0)
    room.leave((room.group().leader, "one"))

    room.coordinator.tick(room.now_ms + 1)

    assert room.coordinator.next_deadline_ms() >= room.now_ms + 1_000


def test_an_administrator_removes_a_static_member_by_its_instance(room):
    one, _ = static_pair(room)

    assert room.leave(("", "two")) == [ErrorCode.NONE]

    assert list(room.group().members) == [one]


def test_an_administrator_can_not_remove_an_instance_that_is_not_there(room):
    static_pair(room)

    assert room.leave(("", "three"), ("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_an_instance_id_the_group_does_not_know_is_unknown(room):
    one, _ = static_pair(room)

    assert room.heartbeat(one, group_instance_id="three") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_can_not_become_static(room):
    pending = room.new_member()

    assert room.join(pending, group_instance_id="one")["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_remembers_which_instance_is_which_member(room):
    _, two = static_pair(room)
    room.restart()

    reply = room.join(group_instance_id="two")

    assert reply["generation_id"] == 2
    assert room.heartbeat(two, group_instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
