"""Fetch: bytes from the log to the consumer, at once or as soon as there are enough.

Why: a consumer that has read everything leaves one request waiting here; the append that brings news answers it.
Invariants: only whole batches below the high watermark (or the last stable offset) leave; a response never
exceeds the asked bytes except for one first batch, so a consumer can't get stuck; a waiting fetch holds no data.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.error_codes import code_of
from millstream.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPosition,
    FetchSession,
    PartitionKey,
)
from millstream.broker.partition import Partition
from millstream.log.errors import CorruptRange
from millstream.model.errors import MillstreamError
from millstream.wire.apis import ApiKey
from millstream.wire.errors import ErrorCode
from millstream.wire.fetch import VERSION_TOPIC_IDS, FetchedPartition, write_fetch_response
from millstream.wire.schema import request_reader

READ_COMMITTED = 1


class FetchRefused(Exception):
    """The whole request fails with this code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def handle_fetch(broker: Broker, call: Call, frame: memoryview, position: int) -> None:
    request = request_reader(ApiKey.FETCH, call.version)(frame, position)
    try:
        fetch = _Fetch(broker, call, request)
    except FetchRefused as error:
        call.send(
            write_fetch_response(
                call.version, call.correlation_id, error_code=error.code, session_id=0, topics=()
            )
        )
        return
    fetch.start()


class _Fetch:
    """One fetch request, from its arrival to its answer."""

    __slots__ = (
        "_broker", "_call", "_deadline", "_is_committed_only", "_is_full", "_max_wait_ms", "_session", "_size_max",
        "_size_min", "_timer", "_waiting_on", "_wanted",
    )  # fmt: skip

    def __init__(self, broker: Broker, call: Call, request: Any) -> None:
        self._broker = broker
        self._call = call
        self._size_min: int = request.min_bytes
        self._size_max: int = min(request.max_bytes, broker.settings.fetch_max_bytes)
        self._max_wait_ms: int = request.max_wait_ms
        self._is_committed_only: bool = request.isolation_level == READ_COMMITTED
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_on: list[Partition] = []
        self._is_full = True
        self._session: FetchSession | None = None
        self._wanted: dict[PartitionKey, FetchPosition] = self._positions(request)

    def _positions(self, request: Any) -> dict[PartitionKey, FetchPosition]:
        wanted = _asked(request, self._call.version)
        sessions = self._broker.fetch_sessions
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id:
                sessions.close(session_id)
            positions = dict(wanted)
            if epoch == INITIAL_EPOCH and self._call.version >= 7 and positions:
                self._session = sessions.open()
                if self._session is not None:
                    self._session.positions = positions
            return positions
        session = sessions.find(session_id)
        if session is None:
            raise FetchRefused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            raise FetchRefused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.update(wanted, _forgotten(request, self._call.version))
        session.advance()
        self._session = session
        self._is_full = False
        return session.positions

    def start(self) -> None:
        found, size, must_answer = self._read()
        if size >= self._size_min or must_answer or self._max_wait_ms <= 0 or not self._wanted:
            self._answer(found)
            return
        self._wait()
        self._timer = asyncio.get_running_loop().call_later(self._max_wait_ms / 1000, self._expired)
        self._call.on_abandoned = self._abandon

    def _abandon(self) -> None:
        """Nobody is there any more to be answered."""
        self._call.on_abandoned = None
        self._stop_waiting()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        for (topic_key, index), _ in self._wanted.items():
            topic = self._broker.topic_of(topic_key)
            partition = topic.partition(index) if topic is not None else None
            if partition is not None:
                partition.add_reader(self)
                self._waiting_on.append(partition)

    def wake(self) -> None:
        """Something was appended; look once in this turn of the loop, however many partitions moved."""
        if self._waiting_on:
            self._stop_waiting()
            asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        if self._timer is None:
            return
        found, size, must_answer = self._read()
        if size >= self._size_min or must_answer:
            self._finish(found)
        else:
            self._wait()

    def _expired(self) -> None:
        self._stop_waiting()
        found, _, _ = self._read()
        self._finish(found)

    def _finish(self, found: list[tuple[PartitionKey, FetchedPartition]]) -> None:
        self._call.on_abandoned = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._answer(found)

    def _stop_waiting(self) -> None:
        for partition in self._waiting_on:
            partition.remove_reader(self)
        self._waiting_on = []

    def _read(self) -> tuple[list[tuple[PartitionKey, FetchedPartition]], int, bool]:
        """(what each partition gives, bytes in all, whether there is an error to tell at once)."""
        found = []
        size = 0
        must_answer = False
        # A client that does not read what it was sent gets no more, however much it asks for.
        room = self._call.sink.output_room()
        size_max = min(self._size_max, room)
        for key, position in self._wanted.items():
            fetched = self._read_partition(key, position, size_max - size, is_first=size == 0 < room)
            size += fetched.size
            if fetched.error_code or fetched.diverging is not None:
                must_answer = True
            found.append((key, fetched))
        return found, size, must_answer

    def _read_partition(
        self, key: PartitionKey, position: FetchPosition, size_left: int, *, is_first: bool
    ) -> FetchedPartition:
        topic_key, index = key
        topic = self._broker.topic_of(topic_key)
        if topic is None:
            is_name = isinstance(topic_key, str)
            return FetchedPartition(
                index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.UNKNOWN_TOPIC_ID
            )
        partition = topic.partition(index)
        if partition is None:
            return FetchedPartition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = partition.log
        epoch_error = self._broker.check_epoch(position.current_leader_epoch)
        if epoch_error:
            return FetchedPartition(index, epoch_error)
        if position.last_fetched_epoch >= 0:
            epoch, end_offset = log.epoch_end(position.last_fetched_epoch)
            if epoch >= 0 and (end_offset < position.offset or epoch < position.last_fetched_epoch):
                return FetchedPartition(
                    index, 0, log.high_watermark, partition.last_stable_offset, log.start_offset, None,
                    diverging=(epoch, end_offset),
                )  # fmt: skip
        limit = partition.last_stable_offset if self._is_committed_only else log.high_watermark
        buffers: Any = ()
        size = 0
        if position.offset < limit and (size_left > 0 or is_first):
            size_max = min(position.size_max, size_left)
            try:
                result = log.read(position.offset, size_max, limit=limit, min_one=is_first)
            except MillstreamError as error:
                if isinstance(error, CorruptRange):
                    self._broker.report_damage(error)
                return FetchedPartition(
                    index, code_of(error), log.high_watermark, partition.last_stable_offset, log.start_offset
                )
            buffers, size = result.buffers, result.size
        elif position.offset > log.high_watermark or position.offset < log.start_offset:
            return FetchedPartition(
                index,
                ErrorCode.OFFSET_OUT_OF_RANGE,
                log.high_watermark,
                partition.last_stable_offset,
                log.start_offset,
            )
        return FetchedPartition(
            index,
            0,
            log.high_watermark,
            partition.last_stable_offset,
            log.start_offset,
            () if self._is_committed_only else None,
            buffers,
            size,
        )

    def _answer(self, found: list[tuple[PartitionKey, FetchedPartition]]) -> None:
        session = self._session
        topics: dict[str | bytes, list[FetchedPartition]] = {}
        for key, fetched in found:
            if session is not None and not self._tell(session, key, fetched):
                continue
            topics.setdefault(key[0], []).append(fetched)
        call = self._call
        call.send(
            write_fetch_response(
                call.version,
                call.correlation_id,
                error_code=0,
                session_id=session.id if session is not None else 0,
                topics=list(topics.items()),
            ),
            sum(fetched.size for _, fetched in found),
        )

    def _tell(self, session: FetchSession, key: PartitionKey, fetched: FetchedPartition) -> bool:
        """Whether an incremental answer has to carry this partition; remembers what was told."""
        position = session.positions.get(key)
        if position is None:
            return True
        is_news = (
            self._is_full
            or fetched.size > 0
            or fetched.error_code != 0
            or position.told_error != 0
            or fetched.diverging is not None
            or fetched.high_watermark != position.told_high_watermark
            or fetched.start_offset != position.told_start_offset
        )
        if is_news:
            position.told_high_watermark = fetched.high_watermark
            position.told_start_offset = fetched.start_offset
            position.told_error = fetched.error_code
        if fetched.size:
            session.served(key)
        return is_news


def _asked(request: Any, version: int) -> Iterable[tuple[PartitionKey, FetchPosition]]:
    for topic in request.topics:
        topic_key = topic.topic_id if version >= VERSION_TOPIC_IDS else topic.topic
        for partition in topic.partitions:
            yield (
                (topic_key, partition.partition),
                FetchPosition(
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                    partition.last_fetched_epoch,
                ),
            )


def _forgotten(request: Any, version: int) -> Iterable[PartitionKey]:
    for topic in request.forgotten_topics_data:
        topic_key = topic.topic_id if version >= VERSION_TOPIC_IDS else topic.topic
        for index in topic.partitions:
            yield (topic_key, index)
