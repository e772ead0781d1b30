"""Produce: a batch is checked, appended, and acknowledged when it is as safe as was asked.

Why: this is where "nothing acknowledged is ever lost" begins. `acks=all` is answered after the group commit that
covers the batch; `acks=1` after the write; `acks=0` not at all.
Invariants: a refused batch leaves nothing behind; a duplicate is answered with the offset it got the first time,
and only once that first copy is durable; the answer keeps the order of the request.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.error_codes import code_of
from millstream.broker.partition import Partition
from millstream.codec.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    BatchHeader,
    clear_append_time,
    crc_is_valid,
    read_header,
    set_append_time,
)
from millstream.codec.compression import Compression
from millstream.codec.errors import CorruptBatch, InvalidRecord
from millstream.codec.rebuild import rebuild
from millstream.codec.records import validate_records
from millstream.log.producers import Duplicate
from millstream.model.errors import MillstreamError
from millstream.model.topic_config import TopicConfig
from millstream.wire.errors import ErrorCode
from millstream.wire.produce import (
    PartitionResult,
    ProduceRequest,
    ProduceShape,
    ProduceTopic,
    read_produce,
    write_produce_response,
)

_STORED_COMPRESSION: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


_CODEC_AT: Final = 22
"""The low byte of a batch's attributes."""

INLINE_BYTES_MAX: Final = 32 * 1024
"""A compressed batch up to this size is unpacked and checked on the event loop; a larger one in a worker."""


class RefusedBatch(MillstreamError):
    """A batch that can't be taken, with the code that says so on the wire."""

    def __init__(self, code: ErrorCode, message: str, record_index: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.record_index = record_index


class _Pending:
    """A produce answer that waits for one or more partitions to be durable."""

    __slots__ = ("call", "frame", "waiting")

    def __init__(self, call: Call, frame: bytes, waiting: int) -> None:
        self.call = call
        self.frame = frame
        self.waiting = waiting

    def durable(self) -> None:
        self.waiting -= 1
        if self.waiting == 0:
            self.call.send((self.frame,))


def handle_produce(broker: Broker, call: Call, frame: memoryview, position: int) -> None:
    shape = call.sink.produce_shape
    if shape is not None and shape.version == call.version:
        found = shape.read(frame, position)
        if found is not None and _produce_one(broker, call, shape, *found):
            return
    request = read_produce(frame, position, call.version)
    call.sink.produce_shape = ProduceShape.of(frame, position, call.version, request)
    for topic_key, partitions in request.topics:
        topic = broker.topic_of(topic_key)
        for _, records in partitions:
            if topic is not None and records is not None and _is_heavy(topic.config, records):
                _produce_off_loop(broker, call, request)
                return
    _produce(broker, call, request, lambda config, records: prepare(records, config, call.version))


def _produce_one(broker: Broker, call: Call, shape: ProduceShape, index: int, records: memoryview) -> bool:
    """The common case: one batch that can be taken as it is. False, and nothing done, in any other."""
    topic = broker.topic_of(shape.topic)
    if topic is None:
        return False
    partition = topic.partition(index)
    if partition is None or shape.acks == 0 or _is_heavy(topic.config, records):
        return False
    try:
        _check_acks(broker, partition, shape.acks)
        prepared = prepare(records, topic.config, call.version)
    except MillstreamError:
        return False  # the general way finds the same and has the words for it
    try:
        result, end_offset = _append(broker, partition, topic.config, index, prepared)
    except MillstreamError as error:
        # Not once more: the append may have written into the batch before it failed.
        _answer(call, shape.acks, [(shape.topic, [_refused(index, error)])], [])
        return True
    broker.storage.flusher.dirty(partition.log)
    frame = shape.write(
        call.correlation_id, index, result.base_offset, result.append_time_ms, result.start_offset
    )
    if shape.acks == 1 or partition.log.high_watermark >= end_offset:
        call.send((frame,))
    else:
        partition.when_durable(end_offset, partial(call.send, (frame,)))
    return True


def _is_heavy(config: TopicConfig, records: memoryview) -> bool:
    """Whether checking or storing this batch would keep the event loop from its clients."""
    if len(records) < HEADER_SIZE:
        return False
    codec = records[_CODEC_AT] & COMPRESSION_MASK
    stored = _STORED_COMPRESSION.get(config.compression_type)
    return (stored is not None and stored != codec) or (codec != 0 and len(records) > INLINE_BYTES_MAX)


def _produce_off_loop(broker: Broker, call: Call, request: ProduceRequest) -> None:
    """Check and recompress in a worker thread; the connection's next request waits, so order is kept."""
    copied = request._replace(
        topics=[
            ProduceTopic(
                topic_key,
                [
                    (index, None if records is None else memoryview(bytearray(records)))
                    for index, records in partitions
                ],
            )
            for topic_key, partitions in request.topics
        ]
    )

    def work() -> dict[int, Prepared | MillstreamError]:
        prepared: dict[int, Prepared | MillstreamError] = {}
        for topic_key, partitions in copied.topics:
            topic = broker.topic_of(topic_key)
            for _, records in partitions:
                if topic is not None and records is not None:
                    try:
                        prepared[id(records)] = prepare(records, topic.config, call.version)
                    except MillstreamError as error:
                        prepared[id(records)] = error
        return prepared

    def ready(future: "asyncio.Future[dict[int, Prepared | MillstreamError]]") -> None:
        try:
            prepared = future.result()

            def prepared_before(config: TopicConfig, records: memoryview | None) -> Prepared:
                found = prepared.get(id(records))
                if found is None:
                    return prepare(records, config, call.version)
                if isinstance(found, MillstreamError):
                    raise found
                return found

            _produce(broker, call, copied, prepared_before)
        except Exception as error:
            call.sink.fail(call, error)
        call.sink.release()

    call.sink.hold()
    asyncio.get_running_loop().run_in_executor(broker.workers, work).add_done_callback(ready)


def _produce(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    preparation: Callable[[TopicConfig, memoryview | None], "Prepared"],
) -> None:
    acks = request.acks
    answers = []
    appended: list[tuple[Partition, int]] = []
    for topic_key, partitions in request.topics:
        topic = broker.topic_of(topic_key)
        results = []
        for index, records in partitions:
            partition = topic.partition(index) if topic is not None else None
            if topic is None or partition is None:
                results.append(PartitionResult(index, _unknown(topic_key)))
                continue
            try:
                _check_acks(broker, partition, acks)
                prepared = preparation(topic.config, records)
                result, end_offset = _append(broker, partition, topic.config, index, prepared)
            except MillstreamError as error:
                results.append(_refused(index, error))
                continue
            appended.append((partition, end_offset))
            results.append(result)
        answers.append((topic_key, results))
    for partition, _ in appended:
        broker.storage.flusher.dirty(partition.log)
    _answer(call, acks, answers, appended)


def _answer(
    call: Call,
    acks: int,
    answers: list[tuple[str | bytes, list[PartitionResult]]],
    appended: list[tuple[Partition, int]],
) -> None:
    if acks == 0:
        failed = [result for _, results in answers for result in results if result.error_code]
        if failed:
            # Without an answer, closing is the only way to tell the producer to look for the error.
            call.sink.fail(
                call, RefusedBatch(ErrorCode(failed[0].error_code), f"acks=0: {failed[0].message}")
            )
        else:
            call.drop()
        return
    frame = write_produce_response(call.version, call.correlation_id, answers)
    if acks == 1:
        call.send((frame,))
        return
    waiting = [(partition, end) for partition, end in appended if partition.log.high_watermark < end]
    if not waiting:
        call.send((frame,))
        return
    pending = _Pending(call, frame, len(waiting))
    for partition, end in waiting:
        partition.when_durable(end, pending.durable)


def _refused(index: int, error: MillstreamError) -> PartitionResult:
    if isinstance(error, RefusedBatch):
        return PartitionResult(index, error.code, message=str(error), record_index=error.record_index)
    return PartitionResult(index, code_of(error), message=str(error))


def _unknown(topic_key: str | bytes) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(topic_key, str) else ErrorCode.UNKNOWN_TOPIC_ID


def _check_acks(broker: Broker, partition: Partition, acks: int) -> None:
    if acks not in (-1, 0, 1):
        raise RefusedBatch(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}: must be -1, 0 or 1")
    if broker.storage.is_full:
        raise broker.storage.refusal(partition.name)


class Prepared(NamedTuple):
    """A batch that was checked and is in the form the topic stores."""

    batch: memoryview | bytearray
    header: BatchHeader


def prepare(records: memoryview | None, config: TopicConfig, version: int) -> Prepared:
    """Check a batch and give it the topic's compression. Touches nothing but the batch: runs in any thread."""
    header = check_batch(records, config, version)
    assert records is not None
    try:
        validate_records(records, header, need_keys=config.compacts)
    except (CorruptBatch, InvalidRecord) as error:
        # The checksum holds, so these are the bytes the producer meant to send.
        raise RefusedBatch(ErrorCode.INVALID_RECORD, str(error), getattr(error, "index", None)) from None
    if header.attributes & LOG_APPEND_TIME and config.message_timestamp_type == "CreateTime":
        clear_append_time(records, 0, header.size)
        header = read_header(records)
    stored = _STORED_COMPRESSION.get(config.compression_type)
    if stored is None or stored == header.compression:
        return Prepared(records, header)
    batch = rebuild(records, header, compression=stored, level=_level(config, stored))
    header = read_header(batch)
    if header.size > config.max_message_bytes:
        raise RefusedBatch(
            ErrorCode.MESSAGE_TOO_LARGE, f"{header.size} bytes when stored as {config.compression_type}"
        )
    return Prepared(batch, header)


def _append(
    broker: Broker, partition: Partition, config: TopicConfig, index: int, prepared: Prepared
) -> tuple[PartitionResult, int]:
    """Append a prepared batch. Returns the result and the offset to wait for."""
    batch, header = prepared
    log = partition.log
    now_ms = broker.clock.now_ms()
    append_time_ms = -1
    if header.producer_id >= 0:
        seen = log.producers.check(header)
        if type(seen) is Duplicate:
            return PartitionResult(index, 0, seen.base_offset, -1, log.start_offset), seen.end_offset
    if config.message_timestamp_type == "LogAppendTime":
        append_time_ms = now_ms
        set_append_time(batch, 0, header.size, now_ms)
        header = read_header(batch)
    else:
        _check_timestamps(header, config, now_ms)
    base_offset = log.append(batch, header)
    return PartitionResult(index, 0, base_offset, append_time_ms, log.start_offset), log.end_offset


def check_batch(records: memoryview | None, config: TopicConfig, version: int) -> BatchHeader:
    """The header of the one batch a producer sent. Raises RefusedBatch or CorruptBatch."""
    size = len(records) if records is not None else 0
    if records is None or size < HEADER_SIZE:
        if size > 17 and records is not None and records[16] == MAGIC:
            raise CorruptBatch(f"{size} bytes are too few for a record batch")
        raise RefusedBatch(ErrorCode.INVALID_RECORD, "a record batch of format v2 is expected")
    header = read_header(records)
    if header.size != size or header.magic != MAGIC or size > config.max_message_bytes:
        raise _misfit(header, size, config)
    if not crc_is_valid(records, 0, size):
        raise CorruptBatch("the checksum does not match")
    if (
        header.base_offset != 0
        or header.record_count <= 0
        or header.record_count != header.last_offset_delta + 1
        or header.attributes & CONTROL
        or (header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0))
    ):
        raise _ill_formed(header)
    codec = header.attributes & COMPRESSION_MASK
    if codec >= Compression.ZSTD and (codec > Compression.ZSTD or version < 7):
        raise RefusedBatch(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression {codec} in a produce request of version {version}",
        )
    return header


def _misfit(header: BatchHeader, size: int, config: TopicConfig) -> MillstreamError:
    if header.magic > MAGIC:
        return CorruptBatch(f"magic {header.magic} is not known")
    if header.magic < MAGIC:
        return RefusedBatch(
            ErrorCode.INVALID_RECORD, f"magic {header.magic}: only record batches of format v2 are taken"
        )
    if header.size > config.max_message_bytes:
        return RefusedBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{header.size} bytes in a batch; max.message.bytes is {config.max_message_bytes}",
        )
    if header.size > size:
        return CorruptBatch(f"the batch says {header.size} bytes, {size} came")
    return RefusedBatch(ErrorCode.INVALID_RECORD, "one record batch for each partition, not more")


def _ill_formed(header: BatchHeader) -> RefusedBatch:
    if header.is_control:
        return RefusedBatch(ErrorCode.INVALID_RECORD, "control batches are the broker's to write")
    if header.base_offset != 0:
        return RefusedBatch(ErrorCode.INVALID_RECORD, f"base offset {header.base_offset}: a producer sends 0")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        return RefusedBatch(ErrorCode.INVALID_RECORD, "a producer id needs an epoch and a sequence")
    return RefusedBatch(
        ErrorCode.INVALID_RECORD,
        f"{header.record_count} records, but the last has offset {header.last_offset_delta}",
    )


def _check_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    ahead = header.max_timestamp - now_ms
    if ahead > config.message_timestamp_after_max_ms:
        raise RefusedBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"a timestamp {ahead} ms ahead; message.timestamp.after.max.ms is "
            f"{config.message_timestamp_after_max_ms}",
        )
    behind = now_ms - header.base_timestamp
    if header.base_timestamp >= 0 and behind > config.message_timestamp_before_max_ms:
        raise RefusedBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"a timestamp {behind} ms behind; message.timestamp.before.max.ms is "
            f"{config.message_timestamp_before_max_ms}",
        )


def _level(config: TopicConfig, compression: Compression) -> int | None:
    return {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }.get(compression)
