"""OffsetCommit, OffsetFetch, OffsetDelete: how far a group has read."""

from types import SimpleNamespace as Struct

import pytest

from millstream.wire.errors import ErrorCode
from tests.coordination.room import START_MS, Room, commit_request, subscription


@pytest.fixture
def room():
    return Room()


def test_a_committed_offset_is_fetched_as_it_was_committed(room):
    room.commit(41, leader_epoch=3, metadata="by hand")

    assert room.fetch() == {
        "partition_index": 0,
        "committed_offset": 41,
        "committed_leader_epoch": 3,
        "metadata": "by hand",
        "error_code": ErrorCode.NONE,
    }


@pytest.mark.parametrize("metadata", ["", "note\0", "é水", "\udcff\udc80 not UTF-8"])
def test_metadata_comes_back_byte_for_byte(room, metadata):
    room.commit(metadata=metadata)
    room.restart()

    assert room.fetch()["metadata"] == metadata


def test_metadata_that_is_null_comes_back_empty(room):
    room.commit(metadata=None)

    assert room.fetch()["metadata"] == ""


def test_an_offset_that_was_never_committed_is_minus_one_without_an_error(room):
    assert room.fetch() == {
        "partition_index": 0,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": ErrorCode.NONE,
    }


def test_a_commit_changes_nothing_until_its_records_are_applied(room):
    decision = room.decide("commit_offsets", commit_request(41), 9, token=100)

    assert len(decision.records) == 1
    assert room.committed() == -1


def test_a_fetch_waits_until_what_it_shows_is_durable(room):
    request = Struct(groups=[Struct(group_id="g", topics=None)], require_stable=True)

    assert room.decide("fetch_offsets", request, 9, token=100).after_earlier


def test_a_later_commit_replaces_an_earlier_one_even_if_it_goes_back(room):
    room.commit(41)
    room.commit(40)

    assert room.committed() == 40


def test_metadata_over_the_limit_is_refused_and_the_other_partitions_are_not(room):
    request = commit_request(41, metadata="x" * 4_097)
    request.topics[0].partitions += commit_request(42, partition=1).topics[0].partitions

    token = room.ask("commit_offsets", request, 9)

    codes = [partition["error_code"] for partition in room.reply(token)["topics"][0]["partitions"]]
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert room.committed(partition=0) == -1
    assert room.committed(partition=1) == 42


def test_metadata_at_the_limit_is_taken(room):
    assert room.commit(metadata="é" * 4_096) == ErrorCode.NONE


def test_metadata_that_no_record_can_hold_is_refused_whatever_the_limit():
    room = Room(offset_metadata_max_bytes=1_000_000)

    assert room.commit(metadata="x" * 32_767) == ErrorCode.NONE
    assert room.commit(metadata="x" * 32_768) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_topic_name_that_no_topic_can_have_is_refused(room):
    assert room.commit(topic="t" * 250) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Who may commit


def test_anybody_may_commit_for_a_group_without_members(room):
    assert room.commit() == ErrorCode.NONE
    assert room.commit(member_id="admin") == ErrorCode.NONE


def test_the_empty_group_id_is_a_group_for_commits_as_in_kafka(room):
    assert room.commit(41, group_id="") == ErrorCode.NONE
    assert room.committed(group_id="") == 41


def test_a_member_may_commit_in_its_generation(room):
    member_id = room.lone_member()

    assert room.commit(member_id=member_id, generation_id=1) == ErrorCode.NONE


def test_a_stranger_may_not_commit_for_a_group_with_members(room):
    room.lone_member()

    assert room.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(member_id="ghost", generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert room.commit(member_id="ghost") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation_id", [-1, 0, 2])
def test_a_member_of_another_generation_may_not_commit(room, generation_id):
    member_id = room.lone_member()

    assert room.commit(member_id=member_id, generation_id=generation_id) == ErrorCode.ILLEGAL_GENERATION


def test_a_member_of_a_group_that_is_empty_now_may_not_commit(room):
    member_id = room.lone_member()
    room.leave((member_id, None))

    assert room.commit(member_id=member_id, generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("version", "error_code"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_member_of_a_group_that_does_not_exist_may_not_commit(room, version, error_code):
    assert room.commit(member_id="ghost", generation_id=1, version=version) == error_code


def test_a_member_may_commit_while_the_others_join_again(room):
    leader, follower = room.pair()
    room.ask_join(leader)

    assert room.commit(member_id=follower, generation_id=2) == ErrorCode.NONE


def test_a_member_may_not_commit_while_the_leader_assigns(room):
    member_id = room.new_member()
    room.join(member_id)

    assert room.commit(member_id=member_id, generation_id=1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_does_not_create_a_group_by_being_refused(room):
    room.commit(member_id="ghost", generation_id=1)

    assert room.listed() == []


def test_a_commit_in_topic_ids_gets_them_back(room):
    request = commit_request(41)
    request.topics[0].topic_id = b"0123456789abcdef"

    token = room.ask("commit_offsets", request, 10)

    assert room.reply(token)["topics"][0]["topic_id"] == b"0123456789abcdef"


# Fetching


def test_all_topics_are_fetched_when_none_is_named(room):
    room.commit(1, topic="orders", partition=0)
    room.commit(2, topic="orders", partition=5)
    room.commit(3, topic="returns", partition=0)
    request = Struct(groups=[Struct(group_id="g", topics=None)], require_stable=False)

    body = room.reply(room.ask("fetch_offsets", request, 8))

    found = [
        (topic["name"], partition["partition_index"], partition["committed_offset"])
        for topic in body["groups"][0]["topics"]
        for partition in topic["partitions"]
    ]
    assert found == [("orders", 0, 1), ("orders", 5, 2), ("returns", 0, 3)]


def test_many_groups_are_fetched_at_once(room):
    room.commit(1, group_id="a")
    room.commit(2, group_id="b")
    groups = [Struct(group_id=group_id, topics=None) for group_id in ("a", "b", "ghost")]

    body = room.reply(room.ask("fetch_offsets", Struct(groups=groups, require_stable=False), 8))

    assert [(group["group_id"], len(group["topics"])) for group in body["groups"]] == [
        ("a", 1),
        ("b", 1),
        ("ghost", 0),
    ]


def test_before_version_8_one_group_is_fetched(room):
    room.commit(41)
    request = Struct(group_id="g", topics=[Struct(name="orders", partition_indexes=[0, 1])])

    body = room.reply(room.ask("fetch_offsets", request, 7))

    assert body["error_code"] == ErrorCode.NONE
    assert [partition["committed_offset"] for partition in body["topics"][0]["partitions"]] == [41, -1]


def test_a_fetch_in_topic_ids_gets_them_back(room):
    topics = [Struct(name="orders", topic_id=b"0123456789abcdef", partition_indexes=[0])]
    request = Struct(groups=[Struct(group_id="g", topics=topics)], require_stable=False)

    body = room.reply(room.ask("fetch_offsets", request, 10))

    assert body["groups"][0]["topics"][0]["topic_id"] == b"0123456789abcdef"


def test_everything_committed_can_be_walked_for_metrics(room):
    room.commit(41, group_id="a")
    room.commit(42, group_id="b", topic="returns", partition=3)

    found = [
        (group_id, topic, partition, committed.offset, committed.commit_ms)
        for group_id, topic, partition, committed in room.coordinator.committed_offsets()
    ]

    assert found == [("a", "orders", 0, 41, START_MS), ("b", "returns", 3, 42, START_MS)]


# Deleting


def test_a_deleted_offset_is_gone(room):
    room.commit(41)

    assert room.delete_offset() == ErrorCode.NONE

    assert room.committed() == -1


def test_an_offset_that_is_not_there_is_deleted_without_a_record(room):
    room.commit(41)
    before = len(room.stored)

    assert room.delete_offset(partition=1) == ErrorCode.NONE

    assert len(room.stored) == before


def test_offsets_of_a_subscribed_topic_stay(room):
    member_id = room.lone_member()
    room.commit(41, member_id=member_id, generation_id=1)

    assert room.delete_offset() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    assert room.committed() == 41


def test_offsets_of_a_topic_that_nobody_subscribes_to_can_be_deleted_while_the_group_works(room):
    room.commit(41, topic="returns")
    room.lone_member()

    assert room.delete_offset("returns") == ErrorCode.NONE


def test_a_group_whose_subscriptions_can_not_be_read_counts_as_subscribed_to_everything(room):
    room.commit(41, topic="returns")
    room.lone_member(protocols={"range": b"garbage"})

    assert room.delete_offset("returns") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_a_working_group_that_does_not_consume_can_not_be_deleted(room):
    room.commit(41)
    room.lone_member(protocol_type="connect", protocols={"compatible": b""})

    assert room.delete_offset() == ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_group_that_does_not_exist_can_not_be_deleted(room):
    assert room.delete_offset() == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_without_a_group_id_can_not_be_deleted(room):
    assert room.delete_offset(group_id="") == ErrorCode.INVALID_GROUP_ID


def test_offsets_of_a_deleted_topic_go_with_it(room):
    room.commit(1, group_id="a", topic="orders", partition=0)
    room.commit(2, group_id="a", topic="orders", partition=1)
    room.commit(3, group_id="a", topic="returns")
    room.commit(4, group_id="b", topic="orders")

    room.take(room.coordinator.forget_topics(["orders", "never"]))

    assert [found[:3] for found in room.coordinator.committed_offsets()] == [("a", "returns", 0)]


def test_offsets_of_a_deleted_topic_go_even_while_it_is_subscribed(room):
    member_id = room.lone_member(protocols={"range": subscription("orders")})
    room.commit(41, member_id=member_id, generation_id=1)

    room.take(room.coordinator.forget_topics(["orders"]))

    assert room.committed() == -1
