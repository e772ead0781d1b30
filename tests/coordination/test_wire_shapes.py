"""Every version of every group request, from bytes to bytes."""

import pytest

from millstream.wire.apis import SERVED, ApiKey
from millstream.wire.errors import ErrorCode
from millstream.wire.schema import (
    request_reader,
    request_writer,
    response_reader,
    response_writer,
    unknown_keys,
)
from tests.coordination.room import ORDERS, Room

ENTRIES = {
    ApiKey.JOIN_GROUP: "join",
    ApiKey.SYNC_GROUP: "sync",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave",
    ApiKey.OFFSET_COMMIT: "commit_offsets",
    ApiKey.OFFSET_FETCH: "fetch_offsets",
    ApiKey.OFFSET_DELETE: "delete_offsets",
    ApiKey.DESCRIBE_GROUPS: "describe",
    ApiKey.LIST_GROUPS: "list",
    ApiKey.DELETE_GROUPS: "delete_groups",
}


def versions(api_key):
    oldest, newest = SERVED[api_key]
    return pytest.mark.parametrize("version", range(max(oldest, 0), newest + 1))


def through_the_wire(room, api_key, version, *, topic_name=None, **request):
    """Send the request's bytes, and read the bytes of the reply."""
    body = request_reader(api_key, version)(request_writer(api_key, version)(request), 0)
    if topic_name is not None:
        body.topics[0].name = topic_name
    reply = room.reply(room.ask(ENTRIES[api_key], body, version))
    assert unknown_keys(api_key, reply) == []
    return response_reader(api_key, version)(response_writer(api_key, version)(reply), 0)


def joining(member_id=""):
    return {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": ORDERS}],
    }


@versions(ApiKey.JOIN_GROUP)
def test_join_in_every_version(version):
    room = Room()
    first = through_the_wire(room, ApiKey.JOIN_GROUP, version, **joining())
    member_id = first.member_id

    again = through_the_wire(room, ApiKey.JOIN_GROUP, version, **joining(member_id))

    assert again.error_code == ErrorCode.NONE
    assert again.generation_id == 1
    assert again.protocol_name == "range"
    assert [(member.member_id, member.metadata) for member in again.members] == [(member_id, ORDERS)]


@versions(ApiKey.JOIN_GROUP)
def test_a_refused_join_in_every_version(version):
    reply = through_the_wire(Room(), ApiKey.JOIN_GROUP, version, **joining("ghost"))

    assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert reply.members == []


@versions(ApiKey.SYNC_GROUP)
def test_sync_in_every_version(version):
    room = Room()
    member_id = room.new_member()
    room.join(member_id)
    assignments = [{"member_id": member_id, "assignment": b"mine"}]

    reply = through_the_wire(
        room,
        ApiKey.SYNC_GROUP,
        version,
        group_id="g",
        generation_id=1,
        member_id=member_id,
        assignments=assignments,
    )

    assert reply.error_code == ErrorCode.NONE
    assert reply.assignment == b"mine"


@versions(ApiKey.HEARTBEAT)
def test_heartbeat_in_every_version(version):
    room = Room()
    member_id = room.lone_member()

    reply = through_the_wire(
        room, ApiKey.HEARTBEAT, version, group_id="g", generation_id=1, member_id=member_id
    )

    assert reply.error_code == ErrorCode.NONE


@versions(ApiKey.LEAVE_GROUP)
def test_leave_in_every_version(version):
    room = Room()
    member_id = room.lone_member()
    who = {"member_id": member_id} if version < 3 else {"members": [{"member_id": member_id}]}

    reply = through_the_wire(room, ApiKey.LEAVE_GROUP, version, group_id="g", **who)

    assert reply.error_code == ErrorCode.NONE
    assert room.state() == "Empty"


@versions(ApiKey.OFFSET_COMMIT)
def test_commit_in_every_version(version):
    room = Room()
    partitions = [{"partition_index": 3, "committed_offset": 41, "committed_metadata": "note\0"}]
    topic = {"name": "orders"} if version < 10 else {"topic_id": b"0123456789abcdef"}

    reply = through_the_wire(
        room,
        ApiKey.OFFSET_COMMIT,
        version,
        topic_name="orders",
        group_id="g",
        member_id="",
        generation_id_or_member_epoch=-1,
        topics=[{**topic, "partitions": partitions}],
    )

    assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert room.fetch(partition=3)["metadata"] == "note\0"


@versions(ApiKey.OFFSET_FETCH)
def test_fetch_in_every_version(version):
    room = Room()
    room.commit(41, metadata="note\0")
    topics = [{"name": "orders", "partition_indexes": [0]}]
    asked = {"group_id": "g", "topics": topics if version < 10 else None}

    reply = through_the_wire(
        room, ApiKey.OFFSET_FETCH, version, **(asked if version < 8 else {"groups": [asked]})
    )

    found = reply if version < 8 else reply.groups[0]
    partition = found.topics[0].partitions[0]
    assert (partition.committed_offset, partition.metadata) == (41, "note\0")


@versions(ApiKey.OFFSET_DELETE)
def test_delete_offsets_in_every_version(version):
    room = Room()
    room.commit(41)
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]

    reply = through_the_wire(room, ApiKey.OFFSET_DELETE, version, group_id="g", topics=topics)

    assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE


@versions(ApiKey.DESCRIBE_GROUPS)
def test_describe_in_every_version(version):
    room = Room()
    room.lone_member()

    reply = through_the_wire(room, ApiKey.DESCRIBE_GROUPS, version, groups=["g", "ghost"])

    assert [group.group_state for group in reply.groups] == ["Stable", "Dead"]
    assert reply.groups[0].members[0].member_assignment == b"all"


@versions(ApiKey.LIST_GROUPS)
def test_list_in_every_version(version):
    room = Room()
    room.lone_member()

    reply = through_the_wire(room, ApiKey.LIST_GROUPS, version)

    assert [(group.group_id, group.protocol_type) for group in reply.groups] == [("g", "consumer")]


@versions(ApiKey.DELETE_GROUPS)
def test_delete_groups_in_every_version(version):
    room = Room()
    room.commit(41)

    reply = through_the_wire(room, ApiKey.DELETE_GROUPS, version, groups_names=["g"])

    assert [(result.group_id, result.error_code) for result in reply.results] == [("g", ErrorCode.NONE)]
