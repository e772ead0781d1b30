"""Questions to a node that may die before it answers, written into a history.

Why: a real client retries by itself, and then nobody can say what an error means. Here each question is sent once:
an answer is `ok`, a refusal is `fail`, anything else (a broken connection, a timeout) is `info`.
Invariants: one connection, opened again after each failure; nothing is ever sent twice.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from millstream.testing.history import History
from tests.support.batches import decode
from tests.support.raw import ConnectionClosed, RawConnection
from tests.support.raw_groups import committed
from tests.support.raw_requests import LATEST, RawRequests, produce_body

BROKEN = (OSError, ConnectionClosed)
EARLIEST = -2


class Refused(Exception):
    """The node answered with an error code: it did not do what was asked."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Asking:
    """One client. Without a history it only asks."""

    def __init__(self, address: str, history: History | None = None, process: str = "asking") -> None:
        self._address = address
        self._history = history
        self._process = process
        self._connection: RawConnection | None = None
        self.is_broken = False
        """Whether the last question got no answer."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> RawConnection:
        if self._connection is None:
            self._connection = RawConnection(self._address, timeout_s=30)
        return self._connection

    @property
    def raw(self) -> RawRequests:
        return RawRequests(self.connection)

    # The catalog

    def create_topic(
        self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> bool:
        def ask() -> dict[str, Any]:
            wanted = {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "assignments": [],
                "configs": [{"name": key, "value": value} for key, value in (config or {}).items()],
            }
            answer = self.connection.call(
                "create_topics", 7, topics=[wanted], timeout=30_000, validate_only=False
            )
            return accepted(answer.topics[0].error_code)

        return self._recorded("create_topic", ask, topic=name, config=dict(config or {}))

    def delete_topic(self, name: str) -> bool:
        def ask() -> dict[str, Any]:
            answer = self.connection.call(
                "delete_topics", 6, topics=[{"name": name, "topic_id": None}], timeout=30_000
            )
            return accepted(answer.responses[0].error_code)

        return self._recorded("delete_topic", ask, topic=name)

    def configure(self, name: str, config: Mapping[str, str]) -> bool:
        def ask() -> dict[str, Any]:
            configs = [{"name": key, "config_operation": 0, "value": value} for key, value in config.items()]
            resource = {"resource_type": 2, "resource_name": name, "configs": configs}
            answer = self.connection.call(
                "incremental_alter_configs", 1, resources=[resource], validate_only=False
            )
            return accepted(answer.responses[0].error_code)

        return self._recorded("configure", ask, topic=name, config=dict(config))

    def describe_topic(self, name: str) -> bool:
        def ask() -> dict[str, Any]:
            resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
            answer = self.connection.call("describe_configs", 4, resources=[resource]).results[0]
            if answer.error_code == ErrorCode.unknown_topic_or_partition:
                return {"exists": False, "config": {}}
            accepted(answer.error_code)
            return {"exists": True, "config": {each.name: each.value for each in answer.configs}}

        return self._recorded("describe_topic", ask, topic=name)

    def producer_id(self) -> bool:
        def ask() -> dict[str, Any]:
            answer = self.connection.call(
                "init_producer_id", 4, transactional_id=None, transaction_timeout=60_000
            )
            accepted(answer.error_code)
            return {"id": answer.producer_id}

        return self._recorded("producer_id", ask)

    # The log

    def produce(
        self, topic: str, value: str, batch: bytes, *, partition: int = 0, acks: int = -1, **facts: Any
    ) -> bool:
        def ask() -> dict[str, Any]:
            body = produce_body(topic, batch, partition=partition, acks=acks)
            found = self.connection.call("produce", 9, **body).responses[0].partition_responses[0]
            accepted(found.error_code)
            return {"offset": found.base_offset}

        return self._recorded(
            "produce", ask, topic=topic, partition=partition, value=value, acks=acks, **facts
        )

    def watermarks(self, topic: str, partition: int = 0) -> bool:
        def ask() -> dict[str, Any]:
            latest = self.raw.list_offsets(topic, LATEST, partition=partition)
            accepted(latest.error_code)
            earliest = self.raw.list_offsets(topic, EARLIEST, partition=partition)
            accepted(earliest.error_code)
            epoch = self.raw.leader_epoch(topic, partition)
            return {"low": earliest.offset, "high": latest.offset, "leader_epoch": epoch}

        return self._recorded("watermarks", ask, topic=topic, partition=partition)

    def delete_records(self, topic: str, offset: int, partition: int = 0) -> bool:
        def ask() -> dict[str, Any]:
            wanted = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
            answer = self.connection.call("delete_records", 2, topics=[wanted], timeout=30_000)
            found = answer.topics[0].partitions[0]
            accepted(found.error_code)
            return {"low": found.low_watermark}

        return self._recorded("delete_records", ask, topic=topic, partition=partition, offset=offset)

    def drain(self, topic: str, partition: int = 0) -> bool:
        """Read everything. Every batch must hold its checksum, for that is what a consumer would find out."""

        def ask() -> dict[str, Any]:
            low = self.raw.list_offsets(topic, EARLIEST, partition=partition).offset
            high = self.raw.end_offset(topic, partition=partition)
            records = [[offset, value] for offset, _, value in self.records(topic, partition)]
            return {"records": records, "low": low, "high": high}

        return self._recorded("drain", ask, topic=topic, partition=partition)

    def records(self, topic: str, partition: int = 0) -> Iterator[tuple[int, str, str]]:
        """(offset, key, value) of each record from the log's start to its end."""
        offset = int(self.raw.list_offsets(topic, EARLIEST, partition=partition).offset)
        high = self.raw.end_offset(topic, partition=partition)
        while offset < high:
            found = self.raw.fetch(topic, offset, partition=partition, partition_max_bytes=4_000_000)
            accepted(found.error_code)
            batches = decode(found.records)
            assert batches, f"{topic}-{partition}: nothing at {offset}, though the end is {high}"
            reached = batches[-1].last_offset
            assert reached >= offset, f"{topic}-{partition}: a fetch at {offset} gave what ends at {reached}"
            for batch in batches:
                assert batch.crc_holds, (
                    f"{topic}-{partition}: a batch at {batch.base_offset} is not as it was sent"
                )
                for place, item in zip(batch.offsets, batch.items, strict=True):
                    if place >= offset:
                        yield place, (item.key or b"").decode(), (item.value or b"").decode()
                offset = batch.last_offset + 1

    # Groups

    def committed(self, group: str, topic: str, partition: int = 0) -> bool:
        def ask() -> dict[str, Any]:
            return {"offset": committed(self.connection, group, topic, partition)[0]}

        return self._recorded("committed", ask, group=group, topic=topic, partition=partition)

    def _recorded(self, operation: str, ask: Callable[[], dict[str, Any]], **asked: Any) -> bool:
        """Whether it was answered with success."""
        call = self._history.invoke(self._process, operation, **asked) if self._history else None
        self.is_broken = False
        try:
            answer = ask()
        except Refused as error:
            if call is not None:
                call.fail(error.code.name)
        except BROKEN as error:
            self.close()
            self.is_broken = True
            if call is not None:
                call.info(repr(error))
        else:
            if call is not None:
                call.ok(**answer)
            return True
        return False


def accepted(code: int) -> dict[str, Any]:
    if code:
        raise Refused(ErrorCode(code))
    return {}


@contextlib.contextmanager
def asking(address: str, history: History | None = None) -> Iterator[Asking]:
    client = Asking(address, history)
    try:
        yield client
    finally:
        client.close()
