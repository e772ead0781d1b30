"""What a group remembers, request by request: committed offsets; and what is told about groups."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from kio.schema.errors import ErrorCode

from tests.clients.confluent import Confluent, poll_until
from tests.clients.conftest import NewMember
from tests.support.raw import RawConnection
from tests.support.raw_groups import committed, committed_as, stable_group, wait_for_coordinator
from tests.support.raw_requests import RawRequests


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
        groups=[
            {"group_id": groups[0], "topics": None},
            {"group_id": groups[1], "topics": [{"name": topic, "partition_indexes": [0]}]},
        ],
    )

    found = {each.group_id: each.topics[0].partitions[0].committed_offset for each in answer.groups}
    assert found == {groups[0]: 0, groups[1]: 1}


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


def test_a_group_at_work_is_not_deleted(new_member: NewMember, connection: RawConnection, group: str) -> None:
    stable_group(new_member())

    answer = connection.call("delete_groups", 2, groups_names=[group, f"{group}-not"])

    codes = {each.group_id: each.error_code for each in answer.results}
    assert codes == {group: ErrorCode.non_empty_group, f"{group}-not": ErrorCode.group_id_not_found}
