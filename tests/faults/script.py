"""One client that does a little of everything, in turn, until the node is gone.

Why: a death at an exact system call needs a workload that reaches every kind of call soon: appends, syncs, rolls,
retention, archive, compaction, topics made and deleted, offsets committed.
Invariants: one question at a time, each in the history; a batch without an answer is sent once more after the
restart, as an idempotent producer does, and must not be stored twice.
"""

import time
from collections.abc import Callable
from pathlib import Path

from millstream.testing.checker import Verdict, check
from millstream.testing.history import History, Invocation, read_history
from tests.faults.asking import BROKEN, Asking, Refused, accepted
from tests.support.batches import Batch, Item
from tests.support.raw_groups import committed_as, wait_for_coordinator
from tests.support.raw_requests import produce_body

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "40",
    "log.cleaner.backoff.ms": "60",
    "offsets.topic.num.partitions": "1",
}
GROUP = "script"
KEPT, ARCHIVED, SHORT, TABLE = "kept", "archived", "short", "table"
_SMALL = {"segment.bytes": "2048", "file.delete.delay.ms": "20", "index.interval.bytes": "256"}
TOPICS = {
    KEPT: _SMALL,
    ARCHIVED: {**_SMALL, "millstream.archive.enable": "true", "retention.bytes": "4096"},
    SHORT: {**_SMALL, "retention.bytes": "4096"},
    TABLE: {**_SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "150"},
}
TURNS_MAX = 400
DEADLINE_SECONDS = 120.0


class Script:
    def __init__(self, address: str, history: Path) -> None:
        self.history = History(history)
        self._client = Asking(address, self.history, "script")
        self._producer_id = -1
        self._sequences = dict.fromkeys(TOPICS, 0)
        self._unanswered: tuple[str, bytes, Invocation] | None = None
        self.turns = 0

    def prepare(self) -> bool:
        """Make the topics; whether all of it was answered."""
        for name, config in TOPICS.items():
            if not self._client.create_topic(name, config=config):
                return False
        try:
            self._producer_id, _ = self._client.raw.producer_id()
            wait_for_coordinator(self._client.connection, GROUP)
        except BROKEN:
            self._client.close()
            return False
        return True

    def run(self, is_over: Callable[[], bool]) -> None:
        """Go on until `is_over`, or until everything was tried often enough."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_over() and self.turns < TURNS_MAX and time.monotonic() < deadline:
            if not self._turn():
                return
            self.turns += 1

    def _turn(self) -> bool:
        number = self.turns
        steps: list[Callable[[], bool]] = [
            lambda: self._produce(KEPT, number),
            lambda: self._produce(ARCHIVED, number),
            lambda: self._produce(SHORT, number),
            lambda: self._produce(TABLE, number),
            lambda: self._client.watermarks(SHORT),
        ]
        changes: list[Callable[[], bool]] = []
        if number % 4 == 1:
            steps.append(lambda: self._commit(number))
        if number % 6 == 2:
            steps.append(
                lambda: self._client.create_topic(f"passing-{number}", config={"retention.ms": "77"})
            )
        if number % 6 == 5:
            changes.append(lambda: self._client.configure(f"passing-{number - 3}", {"retention.ms": "78"}))
        if number % 12 == 11:
            changes.append(lambda: self._client.delete_topic(f"passing-{number - 3}"))
        if number % 10 == 9:
            steps.append(lambda: self._client.delete_records(KEPT, number - 8))
        # A topic that a crash kept from being made can't be changed: that is no reason to stop.
        return all(step() for step in steps) and all(
            change() or not self._client.is_broken for change in changes
        )

    def _produce(self, topic: str, number: int) -> bool:
        value = f"{topic}:{number}"
        is_table = topic == TABLE
        key = f"key-{number % 5}" if is_table else value
        padded = f"{value}:{'.' * 250}"
        batch = Batch(
            items=[Item(key=key.encode(), value=(str(number) if is_table else padded).encode())],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequences[topic],
        ).encode()
        if is_table:
            call = self.history.invoke("script", "put", topic=topic, key=key, value=str(number))
        else:
            call = self.history.invoke(
                "script", "produce", topic=topic, partition=0, value=padded, acks=-1, idempotent=True
            )
        self._unanswered = (topic, batch, call)
        self._sequences[topic] += 1
        return self._send(self._unanswered)

    def _send(self, unanswered: tuple[str, bytes, Invocation]) -> bool:
        topic, batch, call = unanswered
        try:
            answer = self._client.connection.call("produce", 9, **produce_body(topic, batch))
            found = answer.responses[0].partition_responses[0]
            accepted(found.error_code)
        except BROKEN:
            self._client.close()
            return False
        except Refused as error:
            call.fail(error.code.name)
            self._unanswered = None
            return False
        self._unanswered = None
        call.ok(offset=found.base_offset)
        return True

    def _commit(self, number: int) -> bool:
        call = self.history.invoke("script", "commit", group=GROUP, topic=KEPT, partition=0, offset=number)
        try:
            code = committed_as(self._client.connection, KEPT, number, group_id=GROUP)
        except BROKEN as error:
            self._client.close()
            call.info(repr(error))
            return False
        if code:
            call.fail(code.name)
            return False
        call.ok()
        return True

    def finish(self) -> Verdict:
        """After the restart: send again what had no answer, go on a little, then read everything."""
        if self._unanswered is not None and self._producer_id >= 0:
            assert self._send(self._unanswered), "the retry was refused"
        if self._exists(TABLE) and self._producer_id >= 0:
            turns_before = self.turns
            self.turns += 1  # the broken turn may have used its number
            self.run(lambda: self.turns >= turns_before + 15)
            assert self.turns >= turns_before + 15, "the node does not serve after its restart"
        read_back(self._client, self.history, self.turns)
        self._client.close()
        self.history.close()
        return check(read_history(self.history.path))

    def close(self) -> None:
        self._client.close()
        self.history.close()

    def _exists(self, topic: str) -> bool:
        return exists(self._client, topic)


def exists(client: Asking, topic: str) -> bool:
    return bool(client.raw.topic_metadata(topic).error_code == 0)


def read_back(client: Asking, history: History, turns: int) -> None:
    """Read everything there is into the history, from which the checker then sees what is missing."""
    for topic in (KEPT, ARCHIVED):
        if exists(client, topic):
            assert client.drain(topic)
            assert client.watermarks(topic)
    if exists(client, SHORT):
        assert client.watermarks(SHORT)
    if exists(client, TABLE):
        call = history.invoke("script", "table", topic=TABLE)
        call.ok(values={key: value for _, key, value in client.records(TABLE)})
    if exists(client, KEPT) and turns > 2:
        assert client.committed(GROUP, KEPT)
    for number in range(2, turns, 6):
        client.describe_topic(f"passing-{number}")
    for topic in TOPICS:
        client.describe_topic(topic)
