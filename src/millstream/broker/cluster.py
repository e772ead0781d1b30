"""ApiVersions, DescribeLogDirs, and the requests whose honest answer is that there is nothing of the kind.

Why: clients ask what a broker can do before anything else; admin tools ask for ACLs, quotas and reassignments and
must hear "switched off" or "none" instead of a closed connection.
"""

import re
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.catalog import CATALOG_LOG
from millstream.wire.apis import SERVED, ApiKey
from millstream.wire.errors import ErrorCode

Response = dict[str, Any]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle_api_versions(broker: Broker, call: Call, request: Any) -> Response:
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {"error_code": ErrorCode.INVALID_REQUEST, "api_keys": []}
    return {
        "error_code": 0,
        "api_keys": [_versions(key) for key in SERVED],
        "supported_features": [],
        "finalized_features_epoch": 0,
        "finalized_features": [],
    }


def unsupported_api_versions() -> Response:
    """For a version of ApiVersions we don't know: told in version 0, with the range that we do."""
    return {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [_versions(ApiKey.API_VERSIONS)]}


def _versions(key: ApiKey) -> Response:
    first, last = SERVED[key]
    return {"api_key": key, "min_version": first, "max_version": last}


def handle_describe_log_dirs(broker: Broker, call: Call, request: Any) -> Response:
    wanted: dict[str, set[int] | None]
    if request.topics is None:
        wanted = dict.fromkeys(broker.catalog.by_name)
    else:
        wanted = {asked.topic: set(asked.partitions) for asked in request.topics}
    topics = []
    for name, indexes in wanted.items():
        topic = broker.catalog.find(name)
        if topic is None:
            continue
        partitions = [
            {
                "partition_index": index,
                "partition_size": partition.log.size_bytes,
                "offset_lag": 0,
                "is_future_key": False,
            }
            for index, partition in enumerate(topic.partitions)
            if indexes is None or index in indexes
        ]
        topics.append({"name": name, "partitions": partitions})
    total, usable = broker.storage.usage()
    return {
        "error_code": 0,
        "results": [
            {
                "error_code": 0,
                "log_dir": str(broker.storage.directory(CATALOG_LOG).parent),
                "topics": topics,
                "total_bytes": total,
                "usable_bytes": usable,
            }
        ],
    }


_NO_ACLS = "no authorizer is configured on this node"


def handle_describe_acls(broker: Broker, call: Call, request: Any) -> Response:
    return {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": _NO_ACLS, "resources": []}


def handle_create_acls(broker: Broker, call: Call, request: Any) -> Response:
    refused = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": _NO_ACLS}
    return {"results": [refused for _ in request.creations]}


def handle_delete_acls(broker: Broker, call: Call, request: Any) -> Response:
    refused = {"error_code": ErrorCode.SECURITY_DISABLED, "error_message": _NO_ACLS, "matching_acls": []}
    return {"filter_results": [refused for _ in request.filters]}


def handle_describe_client_quotas(broker: Broker, call: Call, request: Any) -> Response:
    return {"error_code": 0, "error_message": None, "entries": []}


def handle_list_partition_reassignments(broker: Broker, call: Call, request: Any) -> Response:
    return {"error_code": 0, "error_message": None, "topics": []}
