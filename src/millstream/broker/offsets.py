"""ListOffsets and OffsetForLeaderEpoch: from a time or an epoch to an offset.

Invariants: an answer never lies beyond what the asking consumer may read.
"""

from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.error_codes import code_of
from millstream.broker.fetch import READ_COMMITTED
from millstream.broker.partition import Partition
from millstream.model.errors import MillstreamError
from millstream.wire.errors import ErrorCode

Response = dict[str, Any]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


def handle_list_offsets(broker: Broker, call: Call, request: Any) -> Response:
    is_committed_only = getattr(request, "isolation_level", 0) == READ_COMMITTED
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": asked.partition_index,
                        **_list_offset(broker, topic.name, asked, is_committed_only=is_committed_only),
                    }
                    for asked in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _list_offset(broker: Broker, topic: str, asked: Any, *, is_committed_only: bool) -> Response:
    partition = broker.catalog.partition(topic, asked.partition_index)
    if partition is None:
        return _no_offset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    epoch_error = broker.check_epoch(asked.current_leader_epoch)
    if epoch_error:
        return _no_offset(epoch_error)
    try:
        return _offset_at(partition, asked.timestamp, is_committed_only=is_committed_only)
    except MillstreamError as error:
        return _no_offset(code_of(error))


def _offset_at(partition: Partition, timestamp: int, *, is_committed_only: bool) -> Response:
    log = partition.log
    limit = partition.last_stable_offset if is_committed_only else log.high_watermark
    if timestamp == LATEST:
        return {"error_code": 0, "timestamp": -1, "offset": limit, "leader_epoch": log.leader_epoch}
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        # The archive is read like the rest, so the earliest local offset is no place a client needs.
        epoch = log.epoch_of(log.start_offset)
        return {"error_code": 0, "timestamp": -1, "offset": log.start_offset, "leader_epoch": epoch}
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _no_offset(0)
    if timestamp < MAX_TIMESTAMP:
        return _no_offset(ErrorCode.INVALID_REQUEST)
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset(limit)
    else:
        found = log.offset_for_timestamp(timestamp, limit=limit)
    if found is None:
        return _no_offset(0)
    return {
        "error_code": 0,
        "timestamp": found.timestamp_ms,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


def _no_offset(code: int) -> Response:
    return {"error_code": code, "timestamp": -1, "offset": -1, "leader_epoch": -1}


def handle_offset_for_leader_epoch(broker: Broker, call: Call, request: Any) -> Response:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    {"partition": asked.partition, **_epoch_end(broker, topic.topic, asked)}
                    for asked in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _epoch_end(broker: Broker, topic: str, asked: Any) -> Response:
    partition = broker.catalog.partition(topic, asked.partition)
    if partition is None:
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "leader_epoch": -1, "end_offset": -1}
    epoch_error = broker.check_epoch(asked.current_leader_epoch)
    if epoch_error:
        return {"error_code": epoch_error, "leader_epoch": -1, "end_offset": -1}
    epoch, end_offset = partition.log.epoch_end(asked.leader_epoch)
    return {"error_code": 0, "leader_epoch": epoch, "end_offset": end_offset}
