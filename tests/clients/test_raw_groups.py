"""The classic group protocol, request by request: who is a member, who leads, who has gone."""

import pytest
from kio.schema.errors import ErrorCode

from tests.clients.conftest import NewMember
from tests.support.raw import RawConnection
from tests.support.raw_groups import RawMember, rejoin, stable_group, wait_for_coordinator
from tests.support.waiting import eventually


def test_a_new_member_is_given_an_id_before_it_joins(new_member: NewMember) -> None:
    member = new_member()

    first = member.join_once()
    second = member.join_once()

    assert (first.error_code, first.member_id != "") == (ErrorCode.member_id_required, True)
    assert (second.error_code, second.member_id) == (ErrorCode.none, first.member_id)


def test_the_first_member_leads_and_sees_the_members(new_member: NewMember) -> None:
    member = new_member(protocols={"range": b"subscription"})

    answer = member.join()

    assert answer.leader == member.member_id
    assert (answer.protocol_type, answer.protocol_name, answer.generation_id) == ("raw", "range", 1)
    assert [(each.member_id, each.metadata) for each in answer.members] == [
        (member.member_id, b"subscription")
    ]


def test_followers_see_no_members_and_get_what_the_leader_assigned(new_member: NewMember) -> None:
    leader, follower = new_member(), new_member()

    stable_group(leader, follower)

    assert leader.generation == follower.generation == 2


def test_members_the_leader_left_out_get_an_empty_assignment(new_member: NewMember) -> None:
    member = new_member()
    member.join()

    answer = member.sync({})

    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"")


def test_the_protocol_all_members_know_is_chosen(new_member: NewMember) -> None:
    first = new_member(protocols={"sticky": b"", "range": b""})
    second = new_member(protocols={"range": b"", "roundrobin": b""})
    first.join()
    first.sync({})
    second.take_member_id()

    second.send_join()
    first.send_join()

    assert {first.receive_join().protocol_name, second.receive_join().protocol_name} == {"range"}


def test_a_member_without_a_common_protocol_is_refused(new_member: NewMember) -> None:
    member = new_member(protocols={"range": b""})
    member.join()
    member.sync({})

    answer = new_member(protocols={"sticky": b""}).join()

    assert answer.error_code == ErrorCode.inconsistent_group_protocol


def test_a_member_of_another_kind_is_refused(new_member: NewMember) -> None:
    member = new_member()
    member.join()
    member.sync({})

    answer = new_member(protocol_type="connect").join()

    assert answer.error_code == ErrorCode.inconsistent_group_protocol


def test_a_group_needs_a_protocol(new_member: NewMember) -> None:
    assert new_member(protocols={}).join().error_code == ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("session_timeout_ms", [1, 10_000_000])
def test_a_session_timeout_out_of_bounds_is_refused(new_member: NewMember, session_timeout_ms: int) -> None:
    answer = new_member(session_timeout_ms=session_timeout_ms).join()

    assert answer.error_code == ErrorCode.invalid_session_timeout


def test_an_empty_group_id_is_refused(bootstrap: str) -> None:
    member = RawMember(bootstrap, "x")
    member.group = ""

    assert member.join().error_code == ErrorCode.invalid_group_id
    member.close()


def test_an_unknown_member_is_refused_everywhere(new_member: NewMember, topic: str) -> None:
    known, stranger = new_member(), new_member()
    stable_group(known)
    stranger.member_id, stranger.generation, stranger.protocol = "nobody", known.generation, known.protocol

    assert stranger.join_once().error_code == ErrorCode.unknown_member_id
    stranger.member_id = "nobody"
    assert stranger.sync().error_code == ErrorCode.unknown_member_id
    assert stranger.heartbeat() == ErrorCode.unknown_member_id
    assert stranger.commit(topic, 1) == ErrorCode.unknown_member_id
    assert stranger.leave().members[0].error_code == ErrorCode.unknown_member_id


def test_another_generation_is_refused_everywhere(new_member: NewMember, topic: str) -> None:
    member = new_member()
    stable_group(member)
    member.generation += 1

    assert member.heartbeat() == ErrorCode.illegal_generation
    assert member.sync().error_code == ErrorCode.illegal_generation
    assert member.commit(topic, 1) == ErrorCode.illegal_generation


def test_a_join_tells_the_others_by_their_heartbeat(new_member: NewMember) -> None:
    old, new = new_member(), new_member()
    stable_group(old)
    assert old.heartbeat() == ErrorCode.none
    new.take_member_id()

    new.send_join()

    assert eventually(lambda: old.heartbeat() == ErrorCode.rebalance_in_progress)
    rejoin(old, new, pending=(new,))
    assert (old.heartbeat(), new.heartbeat()) == (ErrorCode.none, ErrorCode.none)


def test_a_member_that_leaves_is_gone_at_once(new_member: NewMember) -> None:
    staying, leaving = new_member(), new_member()
    stable_group(staying, leaving)

    answer = leaving.leave()

    assert (answer.error_code, answer.members[0].error_code) == (ErrorCode.none, ErrorCode.none)
    assert eventually(lambda: staying.heartbeat() == ErrorCode.rebalance_in_progress)
    rejoin(staying)
    assert leaving.heartbeat() == ErrorCode.unknown_member_id


def test_a_silent_member_is_dropped_after_its_session_timeout(new_member: NewMember) -> None:
    lively = new_member()
    silent = new_member(session_timeout_ms=1_000)
    stable_group(lively, silent)

    # Only the lively one sends heartbeats.
    eventually(lambda: lively.heartbeat() == ErrorCode.rebalance_in_progress)
    rejoin(lively)

    assert silent.heartbeat() == ErrorCode.unknown_member_id


def test_a_member_that_does_not_rejoin_is_dropped_after_the_rebalance_timeout(new_member: NewMember) -> None:
    willing = new_member(rebalance_timeout_ms=2_000)
    stubborn = new_member(rebalance_timeout_ms=2_000)
    stable_group(willing, stubborn)

    answer = willing.join_once()

    assert (answer.error_code, answer.leader) == (ErrorCode.none, willing.member_id)
    assert [each.member_id for each in answer.members] == [willing.member_id]


def test_a_sync_waits_for_the_leader(new_member: NewMember) -> None:
    first, second = new_member(), new_member()
    stable_group(first, second)
    first.send_join()
    second.send_join()
    answers = {first: first.receive_join(), second: second.receive_join()}
    leader, follower = sorted((first, second), key=lambda each: not answers[each].members)

    follower.send_sync()
    leader.sync({follower.member_id: b"late but here"})

    assert follower.receive_sync().assignment == b"late but here"


def test_a_follower_that_joins_again_unchanged_stays_in_its_generation(new_member: NewMember) -> None:
    leader, follower = new_member(), new_member()
    stable_group(leader, follower)
    generation = follower.generation

    answer = follower.join_once()

    assert (answer.error_code, answer.generation_id) == (ErrorCode.none, generation)
    assert leader.heartbeat() == ErrorCode.none


def test_a_leader_that_joins_again_starts_a_rebalance(new_member: NewMember) -> None:
    leader, follower = new_member(), new_member()
    stable_group(leader, follower)

    leader.send_join()

    assert eventually(lambda: follower.heartbeat() == ErrorCode.rebalance_in_progress)
    rejoin(leader, follower, pending=(leader,))


def test_a_static_member_comes_back_without_a_rebalance(new_member: NewMember) -> None:
    other = new_member()
    static = new_member(instance_id="static-1")
    other.take_member_id()
    other.join_once()
    other.sync({other.member_id: b""})
    static.send_join()
    rejoin(other, static, pending=(static,))

    back = new_member(instance_id="static-1")
    answer = back.join_once()

    assert (answer.error_code, answer.generation_id) == (ErrorCode.none, static.generation)
    assert back.member_id != static.member_id
    assert back.sync().assignment == static.member_id.encode()
    assert other.heartbeat() == ErrorCode.none


def test_a_replaced_static_member_is_fenced(new_member: NewMember, topic: str) -> None:
    old = new_member(instance_id="static-1")
    old.join_once()
    old.sync({old.member_id: b"mine"})
    new_member(instance_id="static-1").join_once()

    assert old.heartbeat() == ErrorCode.fenced_instance_id
    assert old.sync().error_code == ErrorCode.fenced_instance_id
    assert old.commit(topic, 1) == ErrorCode.fenced_instance_id


def test_a_static_member_is_removed_by_its_instance_id(
    new_member: NewMember, connection: RawConnection, group: str
) -> None:
    member = new_member(instance_id="static-1")
    member.join_once()
    member.sync({})
    named = [{"member_id": "", "group_instance_id": name} for name in ("static-1", "static-2")]

    answer = connection.call("leave_group", 5, group_id=group, members=named)

    assert [each.error_code for each in answer.members] == [ErrorCode.none, ErrorCode.unknown_member_id]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_coordinator_is_this_broker(
    connection: RawConnection, bootstrap: str, group: str, version: int
) -> None:
    answer = connection.call("find_coordinator", version, key=group)

    assert (answer.error_code, f"{answer.host}:{answer.port}") == (ErrorCode.none, bootstrap)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_coordinators_are_found_many_at_a_time(
    connection: RawConnection, bootstrap: str, group: str, version: int
) -> None:
    keys = [f"{group}-a", f"{group}-b"]

    answer = connection.call("find_coordinator", version, key_type=0, coordinator_keys=keys)

    assert [(each.key, f"{each.host}:{each.port}") for each in answer.coordinators] == [
        (key, bootstrap) for key in keys
    ]


def joined(connection: RawConnection, group: str, version: int, member_id: str) -> tuple[ErrorCode, str]:
    timeouts = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
    answer = connection.call(
        "join_group",
        version,
        group_id=group,
        member_id=member_id,
        protocol_type="raw",
        protocols=[{"name": "range", "metadata": b""}],
        **dict(list(timeouts.items())[: min(version, 1) + 1]),
    )
    return answer.error_code, answer.member_id


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_versions_of_join_group_join_at_once(connection: RawConnection, group: str, version: int) -> None:
    wait_for_coordinator(connection, group)

    code, member_id = joined(connection, group, version, "")

    assert code == ErrorCode.none
    left = connection.call("leave_group", 2, group_id=group, member_id=member_id)
    assert left.error_code == ErrorCode.none


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9])
def test_new_versions_of_join_group_want_a_member_id_first(
    connection: RawConnection, group: str, version: int
) -> None:
    wait_for_coordinator(connection, group)

    first, member_id = joined(connection, group, version, "")
    second, _ = joined(connection, group, version, member_id)

    assert (first, second) == (ErrorCode.member_id_required, ErrorCode.none)
    left = connection.call("leave_group", 2, group_id=group, member_id=member_id)
    assert left.error_code == ErrorCode.none
