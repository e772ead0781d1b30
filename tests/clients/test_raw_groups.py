"""The classic group protocol, request by request."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from kio.schema.errors import ErrorCode

from tests.clients.confluent import Confluent, poll_until
from tests.support.raw import RawConnection
from tests.support.raw_groups import RawMember, committed, committed_as, wait_for_coordinator
from tests.support.raw_requests import RawRequests
from tests.support.waiting import eventually

NewMember = Callable[..., RawMember]


@pytest.fixture
def new_member(bootstrap: str, group: str) -> Iterator[NewMember]:
    """Makes members of this test's group."""
    with ExitStack() as opened:

        def make(**options: object) -> RawMember:
            member = RawMember(bootstrap, group, **options)  # type: ignore[arg-type]  # as the test says
            opened.callback(member.close)
            return member

        yield make


def stable_group(*members: RawMember) -> None:
    """Bring members into one generation, each with its own name as assignment."""
    for member in members:
        member.take_member_id()
    members[0].join_once()
    members[0].sync({members[0].member_id: b""})
    for member in members[1:]:
        member.send_join()
    rejoin(*members, pending=members[1:])


def rejoin(*members: RawMember, pending: tuple[RawMember, ...] = ()) -> None:
    """One rebalance of these members; those in `pending` have sent their join already."""
    for member in members:
        if member not in pending:
            member.send_join()
    answers = {member: member.receive_join() for member in members}
    leaders = [member for member in members if answers[member].leader == member.member_id]
    for member in members:
        wanted = {each.member_id: each.member_id.encode() for each in members}
        member.send_sync(wanted if member in leaders else None)
    for member in members:
        assert member.receive_sync().assignment == member.member_id.encode()


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


def test_only_members_commit_while_the_group_lives(
    new_member: NewMember, connection: RawConnection, group: str, topic: str
) -> None:
    member = new_member()
    stable_group(member)

    by_member = member.commit(topic, 3)
    by_nobody = committed_as(connection, topic, 4, group_id=group)

    assert (by_member, by_nobody) == (ErrorCode.none, ErrorCode.unknown_member_id)
    assert committed(connection, group, topic)[0] == 3


def test_anybody_commits_for_an_empty_group(connection: RawConnection, group: str, topic: str) -> None:
    wait_for_coordinator(connection, group)

    code = committed_as(connection, topic, 42, group_id=group, metadata="by hand")

    assert code == ErrorCode.none
    assert committed(connection, group, topic) == (42, "by hand")


def test_metadata_of_an_offset_comes_back_byte_for_byte(
    connection: RawConnection, group: str, topic: str
) -> None:
    wait_for_coordinator(connection, group)

    committed_as(connection, topic, 7, group_id=group, metadata="a\x00b\u00e9\x00")

    assert committed(connection, group, topic) == (7, "a\x00b\u00e9\x00")


def test_metadata_that_is_too_long_is_refused(connection: RawConnection, group: str, topic: str) -> None:
    wait_for_coordinator(connection, group)

    codes = [committed_as(connection, topic, 1, group_id=group, metadata="x" * size) for size in (4096, 4097)]

    assert codes == [ErrorCode.none, ErrorCode.offset_metadata_too_large]


def test_a_commit_for_a_topic_that_is_not_there_is_refused(
    connection: RawConnection, group: str, topic: str
) -> None:
    wait_for_coordinator(connection, group)

    assert committed_as(connection, f"{topic}-not", 1, group_id=group) == ErrorCode.unknown_topic_or_partition
    assert committed_as(connection, topic, 1, group_id=group, partition=9) == (
        ErrorCode.unknown_topic_or_partition
    )


def test_what_was_never_committed_is_minus_one(connection: RawConnection, group: str, topic: str) -> None:
    wait_for_coordinator(connection, group)

    assert committed(connection, group, topic) == (-1, "")


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_all_offsets_of_a_group_are_fetched_at_once(
    connection: RawConnection, group: str, topic: str, version: int
) -> None:
    wait_for_coordinator(connection, group)
    committed_as(connection, topic, 5, group_id=group)

    answer = connection.call("offset_fetch", version, group_id=group, topics=None)

    (found,) = answer.topics
    assert (found.name, found.partitions[0].committed_offset) == (topic, 5)


def test_offsets_of_several_groups_are_fetched_at_once(
    connection: RawConnection, group: str, topic: str
) -> None:
    groups = [f"{group}-a", f"{group}-b"]
    for number, each in enumerate(groups):
        wait_for_coordinator(connection, each)
        committed_as(connection, topic, number, group_id=each)

    answer = connection.call(
        "offset_fetch",
        8,
        groups=[{"group_id": groups[0], "topics": None}]
        + [{"group_id": groups[1], "topics": [{"name": topic, "partition_indexes": [0]}]}],
    )

    found = {each.group_id: each.topics[0].partitions[0].committed_offset for each in answer.groups}
    assert found == {groups[0]: 0, groups[1]: 1}


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


def deleted_offsets(connection: RawConnection, group: str, *topics: str) -> Any:
    named = [{"name": topic, "partitions": [{"partition_index": 0}]} for topic in topics]
    return connection.call("offset_delete", 0, group_id=group, topics=named)


def test_committed_offsets_are_deleted_one_by_one(
    connection: RawConnection, raw: RawRequests, group: str, topic: str
) -> None:
    other = raw.create_topic(f"{topic}-other")
    wait_for_coordinator(connection, group)
    for each in (topic, other):
        committed_as(connection, each, 8, group_id=group)

    answer = deleted_offsets(connection, group, topic)

    assert answer.error_code == answer.topics[0].partitions[0].error_code == ErrorCode.none
    assert committed(connection, group, topic)[0] == -1
    assert committed(connection, group, other)[0] == 8


def test_offsets_that_a_member_uses_are_not_deleted(clients: Confluent, group: str, topic: str) -> None:
    member = clients.consumer(group)
    member.subscribe([topic])
    poll_until([member], member.assignment)
    member.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)

    with RawConnection(clients.bootstrap_servers) as connection:
        answer = deleted_offsets(connection, group, topic)

    assert answer.topics[0].partitions[0].error_code == ErrorCode.group_subscribed_to_topic


def test_offsets_of_a_group_that_is_not_there_are_not_deleted(
    connection: RawConnection, group: str, topic: str
) -> None:
    wait_for_coordinator(connection, group)

    assert deleted_offsets(connection, group, topic).error_code == ErrorCode.group_id_not_found


@pytest.mark.parametrize("version", range(7))
def test_every_version_of_describe_groups_describes(
    new_member: NewMember, connection: RawConnection, group: str, version: int
) -> None:
    member = new_member(protocols={"range": b"mine"})
    stable_group(member)

    (found,) = connection.call("describe_groups", version, groups=[group]).groups

    assert (found.error_code, found.group_state, found.protocol_type, found.protocol_data) == (
        ErrorCode.none,
        "Stable",
        "raw",
        "range",
    )
    (described,) = found.members
    assert (described.member_id, described.member_metadata, described.member_assignment) == (
        member.member_id,
        b"mine",
        member.member_id.encode(),
    )


def test_an_unknown_group_is_dead_in_old_versions_and_not_found_in_new_ones(
    connection: RawConnection, group: str
) -> None:
    wait_for_coordinator(connection, group)

    (old,) = connection.call("describe_groups", 5, groups=[group]).groups
    (new,) = connection.call("describe_groups", 6, groups=[group]).groups

    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    assert new.error_code == ErrorCode.group_id_not_found


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_list_groups_lists(
    new_member: NewMember, connection: RawConnection, group: str, version: int
) -> None:
    stable_group(new_member())

    answer = connection.call("list_groups", version)

    assert ("raw", True) in {(each.protocol_type, each.group_id == group) for each in answer.groups}


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        (["Stable"], [], True),
        (["stable"], [], True),
        (["Empty"], [], False),
        (["Empty", "Stable"], ["classic"], True),
        ([], ["consumer"], False),
    ],
)
def test_groups_are_listed_by_state_and_type(
    new_member: NewMember,
    connection: RawConnection,
    group: str,
    states: list[str],
    types: list[str],
    is_listed: bool,
) -> None:
    stable_group(new_member())

    answer = connection.call("list_groups", 5, states_filter=states, types_filter=types)

    assert (group in {each.group_id for each in answer.groups}) == is_listed


def test_a_group_at_work_is_not_deleted(
    new_member: NewMember, connection: RawConnection, group: str
) -> None:
    stable_group(new_member())

    answer = connection.call("delete_groups", 2, groups_names=[group, f"{group}-not"])

    codes = {each.group_id: each.error_code for each in answer.results}
    assert codes == {group: ErrorCode.non_empty_group, f"{group}-not": ErrorCode.group_id_not_found}
