"""Produce, read and written by hand: the hottest request of the protocol.

Why: a general codec costs more than the append itself (benchmarks/requests.py). Record batches stay where the
socket put them: `records` is a writable view of the receive buffer, never a copy.
Invariants: every length is checked against the bytes that remain; an answer lists topics and partitions in the
order they were asked for. Bytes behind a request are ignored, as Kafka does: librdkafka sends some.
"""

from struct import Struct as Packer
from struct import error as StructError
from typing import NamedTuple

from millstream.wire.errors import MalformedRequest

VERSION_MIN = 3
VERSION_FLEXIBLE = 9
VERSION_TOPIC_IDS = 13

ELEMENTS_MAX = 100_000
"""Topics in a request, or partitions of one topic: more would only cost memory."""

_INT16 = Packer(">h")
_INT32 = Packer(">i")
_ACKS_TIMEOUT = Packer(">hi")
_INDEX_LENGTH = Packer(">ii")


class ProduceTopic(NamedTuple):
    topic: str | bytes
    """The name, or from version 13 the 16 bytes of the topic's id."""
    partitions: list[tuple[int, memoryview | None]]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class PartitionResult(NamedTuple):
    """What became of one partition's batch."""

    partition: int
    error_code: int
    base_offset: int = -1
    append_time_ms: int = -1
    start_offset: int = -1
    message: str | None = None
    record_index: int | None = None
    """Which record of the batch is to blame, if it is one."""


def read_produce(view: memoryview, position: int, version: int) -> ProduceRequest:
    """Read the body at `position`. Raises MalformedRequest."""
    try:
        if version >= VERSION_FLEXIBLE:
            return _read_flexible(view, position, version)
        return _read_legacy(view, position)
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"produce request version {version}: {error}") from None


def _read_legacy(view: memoryview, position: int) -> ProduceRequest:
    end = len(view)
    transactional_id, position = _legacy_string(view, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    count = _INT32.unpack_from(view, position + 6)[0]
    position += 10
    _check_count(count, 6, end - position)
    topics = []
    for _ in range(count):
        name, position = _legacy_string(view, position)
        if name is None:
            raise MalformedRequest("produce request: a topic without a name")
        partition_count = _INT32.unpack_from(view, position)[0]
        position += 4
        _check_count(partition_count, 8, end - position)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, length = _INDEX_LENGTH.unpack_from(view, position)
            position += 8
            if length > end - position:
                raise MalformedRequest(f"produce request: {length} bytes of records, {end - position} left")
            partitions.append((index, view[position : position + length] if length >= 0 else None))
            position += max(length, 0)
        topics.append(ProduceTopic(name, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_flexible(view: memoryview, position: int, version: int) -> ProduceRequest:
    end = len(view)
    transactional_id, position = _compact_string(view, position)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, position)
    count, position = _uvarint(view, position + 6)
    _check_count(count - 1, 3, end - position)
    topics = []
    for _ in range(count - 1):
        topic: str | bytes | None
        if version >= VERSION_TOPIC_IDS:
            topic = bytes(view[position : position + 16])
            position += 16
        else:
            topic, position = _compact_string(view, position)
        if topic is None:
            raise MalformedRequest("produce request: a topic without a name")
        partition_count, position = _uvarint(view, position)
        _check_count(partition_count - 1, 6, end - position)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count - 1):
            index = _INT32.unpack_from(view, position)[0]
            length, position = _uvarint(view, position + 4)
            length -= 1
            if length > end - position:
                raise MalformedRequest(f"produce request: {length} bytes of records, {end - position} left")
            partitions.append((index, view[position : position + length] if length >= 0 else None))
            position = _skip_tags(view, position + max(length, 0))
        topics.append(ProduceTopic(topic, partitions))
        position = _skip_tags(view, position)
    _skip_tags(view, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


class ProduceShape:
    """What the requests of one producer have in common when each carries one batch for one partition.

    Why: a producer sends the same request over and over with other records in it. Comparing the bytes around the
    records with those of the last request is several times cheaper than reading them again, and so is filling
    in the answer.
    """

    __slots__ = ("_head", "_length", "_packer", "_prefix", "_tail", "acks", "topic", "version")

    def __init__(self, version: int, prefix: bytes, request: ProduceRequest) -> None:
        self.version = version
        self.acks = request.acks
        self.topic = request.topics[0].topic
        self._prefix = prefix
        self._length = len(prefix)
        sample = write_produce_response(version, 0, [(self.topic, [PartitionResult(0, 0)])])
        size = _LEGACY_PARTITION[5].size
        at = sample.index(_LEGACY_PARTITION[5].pack(0, 0, -1, -1, -1))
        self._head = sample[8:at]
        self._tail = sample[at + size :]
        self._packer = Packer(f">ii{len(self._head)}sihqqq{len(self._tail)}s")

    @classmethod
    def of(
        cls, view: memoryview, position: int, version: int, request: ProduceRequest
    ) -> "ProduceShape | None":
        """The shape of a request that was just read; None if it is of another kind."""
        if version < VERSION_FLEXIBLE or len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return None
        records = request.topics[0].partitions[0][1]
        if records is None or view[-3:] != _NO_TAGS:
            return None
        prefix_end = len(view) - 3 - len(records) - _uvarint_size(len(records) + 1) - 4
        return cls(version, bytes(view[position:prefix_end]), request)

    def read(self, view: memoryview, position: int) -> tuple[int, memoryview] | None:
        """(partition, records) of a request of this shape; None if it has another."""
        start = position + self._length
        end = len(view) - 3
        if start + 5 > end or view[position:start] != self._prefix or view[end:] != _NO_TAGS:
            return None
        length = view[start + 4]
        records_at = start + 5
        if length > 0x7F:
            try:
                length, records_at = _uvarint(view, start + 4)
            except (IndexError, MalformedRequest):
                return None
        if records_at + length - 1 != end or not length:
            return None
        return _INT32.unpack_from(view, start)[0], view[records_at:end]

    def write(
        self, correlation_id: int, partition: int, base_offset: int, append_time_ms: int, start_offset: int
    ) -> bytes:
        """The frame that answers a batch that was taken."""
        packer = self._packer
        return packer.pack(
            packer.size - 4, correlation_id, self._head, partition, 0, base_offset, append_time_ms, start_offset,
            self._tail,
        )  # fmt: skip


_NO_TAGS = b"\x00\x00\x00"
"""Behind the records: no tags of the partition, of the topic, of the request."""


def _uvarint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


_LEGACY_PARTITION = {
    3: Packer(">ihqq"),  # index, error, base offset, append time
    5: Packer(">ihqqq"),  # and the log's start offset
}


def write_produce_response(
    version: int, correlation_id: int, topics: list[tuple[str | bytes, list[PartitionResult]]]
) -> bytes:
    """The whole frame, size prefix included."""
    out = bytearray(8)
    if version >= VERSION_FLEXIBLE:
        _write_flexible(out, version, topics)
    else:
        _write_legacy(out, version, topics)
    _INDEX_LENGTH.pack_into(out, 0, len(out) - 4, correlation_id)
    return bytes(out)


def _write_legacy(
    out: bytearray, version: int, topics: list[tuple[str | bytes, list[PartitionResult]]]
) -> None:
    out += _INT32.pack(len(topics))
    fixed = _LEGACY_PARTITION[5 if version >= 5 else 3]
    for topic, results in topics:
        name = topic.encode() if isinstance(topic, str) else topic
        out += _INT16.pack(len(name))
        out += name
        out += _INT32.pack(len(results))
        for result in results:
            values = result[:5] if version >= 5 else result[:4]
            out += fixed.pack(*values)
            if version >= 8:
                if result.record_index is None:
                    out += b"\x00\x00\x00\x00"
                else:
                    out += b"\x00\x00\x00\x01" + _INT32.pack(result.record_index) + b"\xff\xff"
                if result.message is None:
                    out += b"\xff\xff"
                else:
                    message = result.message.encode()
                    out += _INT16.pack(len(message))
                    out += message
    out += b"\x00\x00\x00\x00"  # throttle


def _write_flexible(
    out: bytearray, version: int, topics: list[tuple[str | bytes, list[PartitionResult]]]
) -> None:
    out += b"\x00"  # header tags
    _put_uvarint(out, len(topics) + 1)
    fixed = _LEGACY_PARTITION[5]
    for topic, results in topics:
        if isinstance(topic, str):
            name = topic.encode()
            _put_uvarint(out, len(name) + 1)
            out += name
        else:
            out += topic
        _put_uvarint(out, len(results) + 1)
        for result in results:
            out += fixed.pack(*result[:5])
            if result.message is None:
                out += b"\x01\x00\x00"  # no record errors, no message, no tags
            else:
                message = result.message.encode()
                if result.record_index is None:
                    out += b"\x01"
                else:
                    out += b"\x02" + _INT32.pack(result.record_index) + b"\x00\x00"
                _put_uvarint(out, len(message) + 1)
                out += message
                out += b"\x00"
        out += b"\x00"
    out += b"\x00\x00\x00\x00\x00"  # throttle, tags


def _legacy_string(view: memoryview, position: int) -> tuple[str | None, int]:
    length = _INT16.unpack_from(view, position)[0]
    position += 2
    if length < 0:
        return None, position
    if length > len(view) - position:
        raise MalformedRequest(f"produce request: a string of {length} bytes, {len(view) - position} left")
    return str(view[position : position + length], "utf-8"), position + length


def _compact_string(view: memoryview, position: int) -> tuple[str | None, int]:
    length, position = _uvarint(view, position)
    if length == 0:
        return None, position
    length -= 1
    if length > len(view) - position:
        raise MalformedRequest(f"produce request: a string of {length} bytes, {len(view) - position} left")
    return str(view[position : position + length], "utf-8"), position + length


def _uvarint(view: memoryview, position: int) -> tuple[int, int]:
    value = view[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedRequest("produce request: a varint of more than five bytes")


def _put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def _skip_tags(view: memoryview, position: int) -> int:
    count = view[position]
    position += 1
    if count == 0:
        return position
    if count > 0x7F:
        raise MalformedRequest("produce request: more tagged fields than could be meant")
    for _ in range(count):
        _, position = _uvarint(view, position)
        size, position = _uvarint(view, position)
        if size > len(view) - position:
            raise MalformedRequest(f"produce request: a tag of {size} bytes, {len(view) - position} left")
        position += size
    return position


def _check_count(count: int, size_min: int, remaining: int) -> None:
    if count > ELEMENTS_MAX:
        raise MalformedRequest(f"produce request: {count} elements; at most {ELEMENTS_MAX} are taken")
    if count * size_min > remaining:
        raise MalformedRequest(f"produce request: {count} elements announced in {remaining} bytes")
