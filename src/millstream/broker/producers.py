"""InitProducerId and DescribeProducers: identities for idempotent producers.

Invariants: an id is given out once, also across crashes (catalog.py); without a transactional id the epoch is 0,
or one more than what a producer brings back to recover from a lost sequence (KIP-360).
"""

import logging
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.model.errors import MillstreamError
from millstream.wire.errors import ErrorCode

Response = dict[str, Any]

logger = logging.getLogger(__name__)


async def handle_init_producer_id(broker: Broker, call: Call, request: Any) -> Response:
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.UNSUPPORTED_VERSION
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    try:
        producer_id = await broker.catalog.allocate_producer_id()
    except MillstreamError as error:
        logger.warning("a producer has to wait for its id: %s", error)
        return {
            "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE,  # what clients try again on
            "producer_id": -1,
            "producer_epoch": -1,
        }
    return {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}


def handle_describe_producers(broker: Broker, call: Call, request: Any) -> Response:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": index, **_producers(broker, topic.name, index)}
                    for index in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
    }


def _producers(broker: Broker, topic: str, index: int) -> Response:
    partition = broker.catalog.partition(topic, index)
    if partition is None:
        return {
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"{topic}-{index} does not exist",
            "active_producers": [],
        }
    return {
        "error_code": 0,
        "error_message": None,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_update_ms,
                "coordinator_epoch": -1,
                "current_txn_start_offset": -1,
            }
            for producer in partition.log.producers
        ],
    }
