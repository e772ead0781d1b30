"""OffsetCommit, OffsetFetch and OffsetDelete.

Why: these three read and write a group's offsets, whatever protocol its members speak.
Invariants: a commit is granted only to a member of the current generation, or to anybody when the group has
no members; offsets change when the records are applied, not here. Topics are known by name: whoever speaks
in topic ids translates them before and after, and gets them back beside the name.
"""

from typing import Any

from millstream.coordination.classic_group import ClassicGroup, GroupState
from millstream.coordination.decision import Record
from millstream.coordination.group_records import (
    STRING_BYTES_MAX,
    CommittedOffset,
    encoded,
    offset_key,
    offset_key_prefix,
    offset_value,
)
from millstream.coordination.subscriptions import CONSUMER_PROTOCOL
from millstream.model.topics import NAME_LENGTH_MAX
from millstream.wire.errors import ErrorCode

GROUP_NOT_FOUND_VERSION = 9
"""From this version OffsetCommit can say that a group does not exist."""


def commit_refusal(group: ClassicGroup | None, request: Any, version: int) -> ErrorCode:
    """Whether this client may commit for the group."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        if version >= GROUP_NOT_FOUND_VERSION:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error_code = group.refusal(request.member_id, request.group_instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def commit_records(
    request: Any, *, metadata_length_max: int, now_ms: int
) -> tuple[list[Record], dict[str, Any]]:
    """What a granted commit appends, and its reply."""
    retention_ms = getattr(request, "retention_time_ms", -1)
    expire_ms = None if retention_ms < 0 else now_ms + retention_ms
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        is_legal = len(topic.name) <= NAME_LENGTH_MAX
        prefix = offset_key_prefix(request.group_id, topic.name) if is_legal else b""
        results = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error_code = _commit_error(is_legal, metadata, metadata_length_max)
            if error_code is ErrorCode.NONE:
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    expire_ms,
                )
                key = prefix + partition.partition_index.to_bytes(4, "big", signed=True)
                records.append((key, offset_value(committed)))
            results.append({"partition_index": partition.partition_index, "error_code": error_code})
        topics.append(_named(topic, results))
    return records, {"topics": topics}


def commit_refused(request: Any, error_code: ErrorCode) -> dict[str, Any]:
    return {
        "topics": [
            _named(
                topic,
                [
                    {"partition_index": partition.partition_index, "error_code": error_code}
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    }


def fetched(group: ClassicGroup | None, topics: Any) -> list[dict[str, Any]]:
    """The offsets of these topics, or of all when None. What was never committed is -1, without an error."""
    if topics is None:
        stored = {} if group is None else group.offsets.topics()
        return [
            {"name": name, "partitions": [_fetched(index, found) for index, found in partitions.items()]}
            for name, partitions in stored.items()
        ]
    return [
        _named(
            topic,
            [
                _fetched(index, None if group is None else group.offsets.get(topic.name, index))
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def delete_refusal(group: ClassicGroup | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def delete_records(group: ClassicGroup, request: Any) -> tuple[list[Record], dict[str, Any]]:
    """What a granted deletion appends, and its reply; offsets of a subscribed topic stay."""
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        is_subscribed = group.is_subscribed(topic.name)
        error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
        indexes = [partition.partition_index for partition in topic.partitions]
        topics.append(
            {
                "name": topic.name,
                "partitions": [{"partition_index": index, "error_code": error_code} for index in indexes],
            }
        )
        if not is_subscribed:
            records += [
                (offset_key(group.group_id, topic.name, index), None)
                for index in indexes
                if group.offsets.get(topic.name, index) is not None
            ]
    return records, {"error_code": ErrorCode.NONE, "topics": topics}


def _commit_error(is_legal_topic: bool, metadata: str, metadata_length_max: int) -> ErrorCode:
    if not is_legal_topic:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(metadata) > metadata_length_max or len(encoded(metadata)) > STRING_BYTES_MAX:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _fetched(partition_index: int, committed: CommittedOffset | None) -> dict[str, Any]:
    return {
        "partition_index": partition_index,
        "committed_offset": -1 if committed is None else committed.offset,
        "committed_leader_epoch": -1 if committed is None else committed.leader_epoch,
        "metadata": "" if committed is None else committed.metadata,
        "error_code": ErrorCode.NONE,
    }


def _named(topic: Any, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    named = {"name": topic.name, "partitions": partitions}
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is not None:
        named["topic_id"] = topic_id
    return named
