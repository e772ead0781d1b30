"""The requests of consumer groups, handed to the coordinator.

Why: the coordinator decides without disk or sockets; here its decisions meet both, and topic ids meet names.
Invariants: a call is answered when what was decided is durable; inside the coordinator a topic is always a name.
"""

from collections.abc import Callable
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.metadata_words import NO_ID
from millstream.wire.errors import ErrorCode

TOPIC_IDS_FROM = 10
"""The first version of OffsetCommit and OffsetFetch that speaks of topics by id."""

Handler = Callable[[Broker, Call, Any], Any]


def _to_coordinator(entry: str) -> Handler:
    """A handler that passes the request as it is to the coordinator's method `entry`."""

    async def handle(broker: Broker, call: Call, request: Any) -> None:
        await broker.groups.ready()
        decide = getattr(broker.groups.coordinator, entry)
        broker.groups.perform(decide(request, **broker.groups.about(call)))

    return handle


handle_join_group = _to_coordinator("join")
handle_sync_group = _to_coordinator("sync")
handle_heartbeat = _to_coordinator("heartbeat")
handle_leave_group = _to_coordinator("leave")
handle_describe_groups = _to_coordinator("describe")
handle_list_groups = _to_coordinator("list")
handle_delete_groups = _to_coordinator("delete_groups")
handle_offset_delete = _to_coordinator("delete_offsets")


class _CommitReply:
    """Where the coordinator's answer to a commit goes: the refused topics are put back into it."""

    def __init__(self, call: Call, refused: list[dict[str, Any]]) -> None:
        self._call = call
        self._refused = refused

    def respond(self, response: dict[str, Any]) -> None:
        self._call.respond({"topics": [*response["topics"], *self._refused]})


async def handle_offset_commit(broker: Broker, call: Call, request: Any) -> None:
    """Commits for topics or partitions that don't exist are refused one by one, the others go through."""
    await broker.groups.ready()
    refused = []
    for topic in request.topics:
        found = broker.topic_of(topic.topic_id if call.version >= TOPIC_IDS_FROM else topic.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if found is not None:
            topic.name = found.name
        elif call.version >= TOPIC_IDS_FROM:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        unknown = [
            asked
            for asked in topic.partitions
            if found is None or found.partition(asked.partition_index) is None
        ]
        if unknown:
            refused.append(
                {
                    "name": topic.name,
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {"partition_index": asked.partition_index, "error_code": code} for asked in unknown
                    ],
                }
            )
            topic.partitions = [asked for asked in topic.partitions if asked not in unknown]
    request.topics = [topic for topic in request.topics if topic.partitions]
    facts = broker.groups.about(call)
    if refused:
        facts["token"] = _CommitReply(call, refused)
    broker.groups.perform(broker.groups.coordinator.commit_offsets(request, **facts))


class _FetchReply:
    """Where the coordinator's answer to an offset fetch by topic id goes: names become ids again."""

    def __init__(self, broker: Broker, call: Call, unknown: dict[str, list[dict[str, Any]]]) -> None:
        self._broker = broker
        self._call = call
        self._unknown = unknown

    def respond(self, response: dict[str, Any]) -> None:
        for group in response["groups"]:
            known = []
            for topic in group["topics"]:
                found = self._broker.catalog.find(topic["name"])
                if found is not None:
                    known.append({**topic, "topic_id": found.id})
            group["topics"] = [*known, *self._unknown.get(group["group_id"], [])]
        self._call.respond(response)


async def handle_offset_fetch(broker: Broker, call: Call, request: Any) -> None:
    await broker.groups.ready()
    facts = broker.groups.about(call)
    if call.version >= TOPIC_IDS_FROM:
        facts["token"] = _FetchReply(broker, call, _take_out_unknown(broker, request))
    broker.groups.perform(broker.groups.coordinator.fetch_offsets(request, **facts))


def _take_out_unknown(broker: Broker, request: Any) -> dict[str, list[dict[str, Any]]]:
    """Give each topic its name; those without one leave the request and are answered with an error."""
    unknown: dict[str, list[dict[str, Any]]] = {}
    for group in request.groups:
        if group.topics is None:
            continue
        named = []
        for topic in group.topics:
            found = broker.catalog.by_id.get(topic.topic_id or NO_ID)
            if found is not None:
                topic.name = found.name
                named.append(topic)
                continue
            missing = [
                {
                    "partition_index": index,
                    "committed_offset": -1,
                    "committed_leader_epoch": -1,
                    "metadata": "",
                    "error_code": ErrorCode.UNKNOWN_TOPIC_ID,
                }
                for index in topic.partition_indexes
            ]
            unknown.setdefault(group.group_id, []).append({"topic_id": topic.topic_id, "partitions": missing})
        group.topics = named
    return unknown
