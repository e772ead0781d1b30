"""Making, growing, emptying and deleting topics.

Why: the requests of admin clients, with Kafka's checks in Kafka's order, so that tools see the errors they know.
Invariants: a request is checked whole before anything is written; an answer leaves after the record is durable.
"""

import logging
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.catalog import Topic
from millstream.broker.config_view import described_topic_configs
from millstream.broker.error_codes import code_of
from millstream.broker.metadata_words import NO_ID
from millstream.log.errors import OffsetOutOfRange
from millstream.model.errors import MillstreamError
from millstream.model.topic_config import check_topic_overrides
from millstream.model.topics import check_topic_name, is_internal
from millstream.wire.errors import ErrorCode

Response = dict[str, Any]

HIGH_WATERMARK = -1

logger = logging.getLogger(__name__)


class RefusedTopic(MillstreamError):
    """A topic request that can't be taken, with the code that says so on the wire."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def refusal(error: MillstreamError) -> tuple[ErrorCode, str]:
    code = error.code if isinstance(error, RefusedTopic) else code_of(error)
    return code, str(error)


async def auto_create(broker: Broker, name: str) -> Topic | None:
    """Make a topic because a client spoke of it; None when the node takes no more, or not just now."""
    if is_internal(name) or broker.catalog.is_leaving(name):
        return None
    try:
        _check_room(broker, broker.settings.num_partitions)
        _check_collision(broker, name)
        return await broker.catalog.create(name, broker.settings.num_partitions, {})
    except MillstreamError as error:
        logger.warning("topic %s is not made: %s", name, error)
        return None


def _check_room(broker: Broker, count: int) -> None:
    if broker.catalog.partition_count + count > broker.settings.max_partitions:
        raise RefusedTopic(
            ErrorCode.POLICY_VIOLATION,
            f"{count} more partitions would pass max.partitions={broker.settings.max_partitions}",
        )


def _check_collision(broker: Broker, name: str) -> None:
    """Kafka refuses names that differ only in '.' and '_', which collide in metric names."""
    if "." not in name and "_" not in name:
        return
    folded = name.replace(".", "_")
    for other in broker.catalog.by_name:
        if other != name and other.replace(".", "_") == folded:
            raise RefusedTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} collides with {other!r}")


async def handle_create_topics(broker: Broker, call: Call, request: Any) -> Response:
    names = [topic.name for topic in request.topics]
    answers = []
    for asked in request.topics:
        try:
            if names.count(asked.name) > 1:
                raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
            count, overrides = _check_new_topic(broker, asked)
            topic_id = NO_ID
            if not request.validate_only:
                topic_id = (await broker.catalog.create(asked.name, count, overrides)).id
        except MillstreamError as error:
            code, message = refusal(error)
            answers.append(
                {
                    "name": asked.name,
                    "topic_id": NO_ID,
                    "error_code": code,
                    "error_message": message,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "configs": None,
                }
            )
            continue
        answers.append(
            {
                "name": asked.name,
                "topic_id": topic_id,
                "error_code": 0,
                "error_message": None,
                "num_partitions": count,
                "replication_factor": 1,
                "configs": [_brief(entry) for entry in described_topic_configs(broker, overrides)],
            }
        )
    return {"topics": answers}


_BRIEF = ("name", "value", "read_only", "config_source", "is_sensitive")


def _brief(entry: Response) -> Response:
    """As much of a setting as the answer to CreateTopics has room for."""
    return {name: entry[name] for name in _BRIEF}


def _check_new_topic(broker: Broker, asked: Any) -> tuple[int, dict[str, str]]:
    """(partition count, overrides) of a topic that may be made."""
    check_topic_name(asked.name)
    if is_internal(asked.name) and broker.catalog.find(asked.name) is None:
        raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is the node's own")
    if broker.catalog.find(asked.name) is not None:
        raise RefusedTopic(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {asked.name!r} already exists")
    if broker.catalog.is_leaving(asked.name):
        raise RefusedTopic(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {asked.name!r} is just being deleted")
    _check_collision(broker, asked.name)
    count = _check_layout(broker, asked)
    overrides = {}
    for config in asked.configs:
        if config.value is None:
            raise RefusedTopic(ErrorCode.INVALID_CONFIG, f"{config.name}: a value is missing")
        overrides[config.name] = config.value
    check_topic_overrides(overrides)
    _check_room(broker, count)
    return count, overrides


def _check_layout(broker: Broker, asked: Any) -> int:
    if asked.assignments:
        return _check_assignments(broker, asked)
    if asked.num_partitions == 0 or asked.num_partitions < -1:
        raise RefusedTopic(
            ErrorCode.INVALID_PARTITIONS, f"{asked.num_partitions} partitions: at least one is needed"
        )
    if asked.replication_factor not in (-1, 1):
        raise RefusedTopic(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {asked.replication_factor}: there is one node, so it is 1",
        )
    return broker.settings.num_partitions if asked.num_partitions == -1 else int(asked.num_partitions)


def _check_assignments(broker: Broker, asked: Any) -> int:
    if asked.num_partitions != -1 or asked.replication_factor != -1:
        raise RefusedTopic(
            ErrorCode.INVALID_REQUEST, "give either a manual assignment or a count and a replication factor"
        )
    indexes = sorted(assignment.partition_index for assignment in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise RefusedTopic(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be 0, 1, 2 … without a gap")
    for assignment in asked.assignments:
        _check_replicas(broker, assignment.broker_ids)
    return len(indexes)


def _check_replicas(broker: Broker, broker_ids: list[int]) -> None:
    if broker_ids != [broker.settings.node_id]:
        raise RefusedTopic(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replicas {broker_ids}: the only broker is {broker.settings.node_id}",
        )


async def handle_delete_topics(broker: Broker, call: Call, request: Any) -> Response:
    answers = []
    code: int
    message: str | None
    if call.version >= 6:
        asked = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, NO_ID) for name in request.topic_names]
    for name, topic_id in asked:
        topic = broker.catalog.find(name) if name is not None else broker.catalog.by_id.get(topic_id)
        if (name is None) == (topic_id == NO_ID):
            code, message = ErrorCode.INVALID_REQUEST, "give either the name or the id of a topic"
        else:
            code, message = await _delete(broker, topic, by_id=name is None)
        answers.append(
            {
                "name": topic.name if topic is not None else name,
                "topic_id": topic.id if topic is not None else topic_id,
                "error_code": code,
                "error_message": message,
            }
        )
    return {"responses": answers}


async def _delete(broker: Broker, topic: Topic | None, *, by_id: bool) -> tuple[int, str | None]:
    if topic is None:
        if by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id"
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic has this name"
    if is_internal(topic.name):
        return ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is the node's own"
    if not broker.settings.delete_topic_enable:
        return ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false"
    try:
        await broker.catalog.delete(topic)
    except MillstreamError as error:
        return refusal(error)
    await broker.groups.forget_topic(topic.name)
    return 0, None


async def handle_create_partitions(broker: Broker, call: Call, request: Any) -> Response:
    answers = []
    names = [topic.name for topic in request.topics]
    for asked in request.topics:
        code: int
        message: str | None
        try:
            if names.count(asked.name) > 1:
                raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is named twice")
            topic = _check_growth(broker, asked)
            if not request.validate_only:
                await broker.catalog.add_partitions(topic, asked.count)
            code, message = 0, None
        except MillstreamError as error:
            code, message = refusal(error)
        answers.append({"name": asked.name, "error_code": code, "error_message": message})
    return {"results": answers}


def _check_growth(broker: Broker, asked: Any) -> Topic:
    topic = broker.catalog.find(asked.name)
    if topic is None:
        raise RefusedTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {asked.name!r} does not exist")
    present = len(topic.partitions)
    if asked.count <= present:
        raise RefusedTopic(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {asked.name!r} has {present} partitions; {asked.count} is not more",
        )
    if asked.assignments is not None:
        if len(asked.assignments) != asked.count - present:
            raise RefusedTopic(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "one assignment for each new partition")
        for assignment in asked.assignments:
            _check_replicas(broker, assignment.broker_ids)
    _check_room(broker, asked.count - present)
    return topic


async def handle_delete_records(broker: Broker, call: Call, request: Any) -> Response:
    topics = []
    for asked_topic in request.topics:
        partitions = []
        for asked in asked_topic.partitions:
            try:
                low = await _delete_records(broker, asked_topic.name, asked.partition_index, asked.offset)
                partitions.append(
                    {"partition_index": asked.partition_index, "low_watermark": low, "error_code": 0}
                )
            except MillstreamError as error:
                partitions.append(
                    {
                        "partition_index": asked.partition_index,
                        "low_watermark": -1,
                        "error_code": refusal(error)[0],
                    }
                )
        topics.append({"name": asked_topic.name, "partitions": partitions})
    return {"topics": topics}


async def _delete_records(broker: Broker, name: str, index: int, offset: int) -> int:
    topic = broker.catalog.find(name)
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        raise RefusedTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{index} does not exist")
    if is_internal(name):
        raise RefusedTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} is the node's own")
    if not topic.config.deletes:
        raise RefusedTopic(ErrorCode.POLICY_VIOLATION, f"topic {name!r} has cleanup.policy without delete")
    log = partition.log
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0 or offset > log.high_watermark:
        raise OffsetOutOfRange(
            partition.name, requested=offset, first=log.start_offset, end=log.high_watermark
        )
    if offset > log.start_offset:
        await broker.catalog.delete_records(topic, index, offset)
    return log.start_offset
