"""The few requests that raw cases repeat, with their usual fields filled in.

Why: a case should show the one field that it is about.
Invariants: one partition a request, so its answer is that partition's; versions are arguments.
"""

import uuid
from typing import Any

from kio.schema.errors import ErrorCode

from tests.support.batches import StoredBatch, decode
from tests.support.raw import RawConnection
from tests.support.waiting import eventually

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
PRODUCE_TIMEOUT_MS = 30_000


class RawRequests:
    def __init__(self, connection: RawConnection) -> None:
        self.connection = connection

    def create_topic(self, name: str, *, partitions: int = 1, **configs: str) -> str:
        """Create and wait until the topic has leaders; `_` in a config's name stands for `.`."""
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
        }
        answer = self.connection.call(
            "create_topics", 7, topics=[wanted], timeout=30_000, validate_only=False
        )
        assert answer.topics[0].error_code == 0, answer
        self.wait_until_served(name, partitions)
        return name

    def wait_until_served(self, name: str, partitions: int) -> None:
        """Kafka knows a topic a moment before its partitions take requests."""
        numbers = range(partitions)
        eventually(
            lambda: all(
                self.list_offsets(name, LATEST, partition=each).error_code == ErrorCode.none
                for each in numbers
            )
        )

    def topic_metadata(self, name: str) -> Any:
        answer = self.connection.call(
            "metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False
        )
        return answer.topics[0]

    def topic_id(self, name: str) -> uuid.UUID:
        found: uuid.UUID = self.topic_metadata(name).topic_id
        return found

    def leader_epoch(self, name: str, partition: int = 0) -> int:
        partitions = {each.partition_index: each for each in self.topic_metadata(name).partitions}
        return int(partitions[partition].leader_epoch)

    def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> Any:
        """The partition's part of the answer."""
        body = produce_body(topic, records, partition=partition, acks=acks)
        answer = self.connection.call("produce", version, **body)
        return answer.responses[0].partition_responses[0]

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        version: int = 12,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50_000_000,
        partition_max_bytes: int = 1_000_000,
        leader_epoch: int = -1,
    ) -> Any:
        """The partition's part of the answer to a fetch without a session."""
        answer = self.connection.call(
            "fetch",
            version,
            replica_id=-1,
            max_wait=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            topics=[
                {
                    "topic": topic,
                    "partitions": [
                        {
                            "partition": partition,
                            "fetch_offset": offset,
                            "partition_max_bytes": partition_max_bytes,
                            **({} if leader_epoch == -1 else {"current_leader_epoch": leader_epoch}),
                        }
                    ],
                }
            ],
            forgotten_topics_data=[],
        )
        assert answer.error_code == 0, answer
        return answer.responses[0].partitions[0]

    def batches(self, topic: str, offset: int = 0, *, partition: int = 0) -> list[StoredBatch]:
        """The batches that one fetch at `offset` returns."""
        found = self.fetch(topic, offset, partition=partition)
        assert found.error_code == 0, found
        return decode(found.records)

    def list_offsets(self, topic: str, timestamp: int, *, partition: int = 0, version: int = 7) -> Any:
        answer = self.connection.call(
            "list_offsets",
            version,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}],
        )
        return answer.topics[0].partitions[0]

    def end_offset(self, topic: str, *, partition: int = 0) -> int:
        return int(self.list_offsets(topic, LATEST, partition=partition).offset)

    def producer_id(self) -> tuple[int, int]:
        """A new producer id and its epoch."""
        answer = eventually(self._init_producer_id)
        assert answer.error_code == 0, answer
        return answer.producer_id, answer.producer_epoch

    def _init_producer_id(self) -> Any:
        answer = self.connection.call(
            "init_producer_id", 4, transactional_id=None, transaction_timeout=60_000
        )
        return None if answer.error_code == ErrorCode.coordinator_load_in_progress else answer


def produce_body(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": PRODUCE_TIMEOUT_MS,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }
