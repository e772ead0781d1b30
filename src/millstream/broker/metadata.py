"""Metadata, DescribeTopicPartitions, DescribeCluster, FindCoordinator: who and what is here.

Why: every client begins with these. The address told is the one the client reached, so that a node behind a
port-forward or in a container needs no second setting to be reachable.
Invariants: one broker, which leads everything and coordinates everything; the leader epoch is the node's boot
count and never goes backwards.
"""

from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.catalog import Topic
from millstream.broker.metadata_words import CLUSTER_OPERATIONS, NO_ID, NOT_ASKED, TOPIC_OPERATIONS
from millstream.broker.topic_admin import auto_create
from millstream.model.errors import InvalidTopicName
from millstream.model.topics import check_topic_name, is_internal
from millstream.wire.errors import ErrorCode

Response = dict[str, Any]


async def handle_metadata(broker: Broker, call: Call, request: Any) -> Response:
    topics = []
    if request.topics is None or (call.version == 0 and not request.topics):
        topics = [_topic(broker, topic, request) for topic in broker.catalog.by_name.values()]
    else:
        for asked in request.topics:
            topics.append(await _asked_topic(broker, call, request, asked))
    return {
        "brokers": [_node(broker, call)],
        "cluster_id": broker.cluster_id,
        "controller_id": broker.settings.node_id,
        "topics": topics,
        "cluster_authorized_operations": (
            CLUSTER_OPERATIONS
            if getattr(request, "include_cluster_authorized_operations", False)
            else NOT_ASKED
        ),
        "error_code": 0,
    }


async def _asked_topic(broker: Broker, call: Call, request: Any, asked: Any) -> Response:
    topic_id = getattr(asked, "topic_id", None) or NO_ID
    if asked.name is None:
        found = broker.catalog.by_id.get(topic_id)
        if found is None:
            return _no_topic(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _topic(broker, found, request)
    topic = broker.catalog.find(asked.name)
    if topic is None:
        try:
            check_topic_name(asked.name)
        except InvalidTopicName:
            return _no_topic(asked.name, NO_ID, ErrorCode.INVALID_TOPIC_EXCEPTION)
        allowed = call.version < 4 or request.allow_auto_topic_creation
        if not (allowed and broker.settings.auto_create_topics_enable):
            return _no_topic(asked.name, NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic = await auto_create(broker, asked.name)
        if topic is None:
            return _no_topic(asked.name, NO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _topic(broker, topic, request)


def _no_topic(name: str | None, topic_id: bytes, code: ErrorCode) -> Response:
    return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}


def _topic(broker: Broker, topic: Topic, request: Any) -> Response:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": is_internal(topic.name),
        "partitions": [_partition(broker, index) for index in range(len(topic.partitions))],
        "topic_authorized_operations": (
            TOPIC_OPERATIONS if getattr(request, "include_topic_authorized_operations", False) else NOT_ASKED
        ),
    }


def _partition(broker: Broker, index: int) -> Response:
    node_id = broker.settings.node_id
    return {
        "error_code": 0,
        "partition_index": index,
        "leader_id": node_id,
        "leader_epoch": broker.storage.leader_epoch,
        "replica_nodes": [node_id],
        "isr_nodes": [node_id],
        "offline_replicas": [],
    }


def _node(broker: Broker, call: Call) -> Response:
    return {
        "node_id": broker.settings.node_id,
        "host": call.sink.advertised_host,
        "port": call.sink.advertised_port,
        "rack": None,
    }


def handle_describe_topic_partitions(broker: Broker, call: Call, request: Any) -> Response:
    """A page of partitions, beginning at the cursor, topics in name order."""
    limit = max(1, min(request.response_partition_limit, 2_000))
    names = sorted({topic.name for topic in request.topics} or broker.catalog.by_name)
    cursor = request.cursor
    first_index = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        first_index = cursor.partition_index
    topics = []
    next_cursor = None
    for name in names:
        topic = broker.catalog.find(name)
        if topic is None:
            topics.append(_no_topic(name, NO_ID, _missing_code(name)))
            continue
        start = first_index if cursor is not None and name == cursor.topic_name else 0
        if limit == 0:
            next_cursor = {"topic_name": name, "partition_index": start}
            break
        described = _topic(broker, topic, request)
        described["topic_authorized_operations"] = TOPIC_OPERATIONS
        described["partitions"] = [
            {**partition, "eligible_leader_replicas": [], "last_known_elr": []}
            for partition in described["partitions"][start : start + limit]
        ]
        limit -= len(described["partitions"])
        topics.append(described)
        if start + len(described["partitions"]) < len(topic.partitions):
            next_cursor = {"topic_name": name, "partition_index": start + len(described["partitions"])}
            break
    return {"topics": topics, "next_cursor": next_cursor}


def _missing_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except InvalidTopicName:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


ENDPOINT_BROKERS = 1


def handle_describe_cluster(broker: Broker, call: Call, request: Any) -> Response:
    endpoint_type = getattr(request, "endpoint_type", ENDPOINT_BROKERS)
    if endpoint_type != ENDPOINT_BROKERS:
        return {
            "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "error_message": "this is a broker endpoint, not a controller's",
            "endpoint_type": ENDPOINT_BROKERS,
            "cluster_id": "",
            "controller_id": -1,
            "brokers": [],
        }
    node = _node(broker, call)
    return {
        "error_code": 0,
        "error_message": None,
        "endpoint_type": ENDPOINT_BROKERS,
        "cluster_id": broker.cluster_id,
        "controller_id": broker.settings.node_id,
        "brokers": [{"broker_id": node.pop("node_id"), **node, "is_fenced": False}],
        "cluster_authorized_operations": (
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    }


GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2


async def handle_find_coordinator(broker: Broker, call: Call, request: Any) -> Response:
    key_type = getattr(request, "key_type", GROUP_KEY) if call.version >= 1 else GROUP_KEY
    keys = request.coordinator_keys if call.version >= 4 else [request.key]
    found = [await _coordinator(broker, call, key_type, key) for key in keys]
    if call.version >= 4:
        return {"coordinators": found}
    return {name: value for name, value in found[0].items() if name != "key"}


async def _coordinator(broker: Broker, call: Call, key_type: int, key: str) -> Response:
    code, message = 0, None
    if key_type == TRANSACTION_KEY:
        code, message = ErrorCode.UNSUPPORTED_VERSION, "transactions are not offered by this version"
    elif key_type == SHARE_KEY:
        code, message = ErrorCode.UNSUPPORTED_VERSION, "share groups are not offered by this version"
    elif key_type != GROUP_KEY:
        code, message = ErrorCode.INVALID_REQUEST, f"key type {key_type} is unknown"
    else:
        await broker.groups.ready()
    node = {**_node(broker, call)} if code == 0 else {"node_id": -1, "host": "", "port": -1}
    node.pop("rack", None)
    return {"key": key, **node, "error_code": code, "error_message": message}
