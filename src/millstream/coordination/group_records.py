"""The bytes of the offsets topic, in Kafka's own formats.

Why: a group's state lives in records that Kafka's tools can read, and that any older Kafka could have
written.
Invariants: an int16 version opens every key and value. Written: offset commit key 1 with value 3 (value 1
when the client gave the offset a retention of its own), group metadata key 2 with value 3. Read: values 0
to 4. A key whose version is not known belongs to another coordinator. Strings survive byte for byte, also
those that are not UTF-8.

| record | key after the version | value after the version |
| --- | --- | --- |
| offset | group, topic, int32 partition | int64 offset, int32 leader epoch (3+), metadata, int64 commit time, int64 expiry (1) |
| group | group | protocol type, int32 generation, protocol or null, leader or null, int64 state since (2+), members |
| member | | id, instance id or null (3+), client id, client host, int32 rebalance (1+) and session timeout, bytes subscription, bytes assignment |

Version 4 has the same fields with compact lengths and tagged fields behind each structure.
"""  # noqa: E501  # a table row can't be broken

import struct
from dataclasses import dataclass
from typing import NamedTuple

from millstream.coordination.errors import CorruptGroupRecord

STRING_BYTES_MAX = 2**15 - 1

_OFFSET_KEY_VERSIONS = (0, 1)
_GROUP_KEY_VERSION = 2
_FLEXIBLE = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_HEAD = struct.Struct(">hqih")
_OFFSET_HEAD_V1 = struct.Struct(">hqh")
_TWO_INT32 = struct.Struct(">ii")
_TWO_INT64 = struct.Struct(">qq")

_NULL = _INT16.pack(-1)


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int | None = None
    """When the client itself wants it forgotten (OffsetCommit 2 to 4); None leaves it to the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """One generation of a classic group: what a restart must know of it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...]


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group_id: str


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return offset_key_prefix(group_id, topic) + _INT32.pack(partition)


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """An offset's key without its partition: the same for a whole topic of a commit."""
    return _INT16.pack(1) + _string(group_id) + _string(topic)


def offset_value(committed: CommittedOffset) -> bytes:
    metadata = encoded(committed.metadata)
    if committed.expire_ms is not None:
        head = _OFFSET_HEAD_V1.pack(1, committed.offset, len(metadata))
        return head + metadata + _TWO_INT64.pack(committed.commit_ms, committed.expire_ms)
    head = _OFFSET_HEAD.pack(3, committed.offset, committed.leader_epoch, len(metadata))
    return head + metadata + _INT64.pack(committed.commit_ms)


def group_key(group_id: str) -> bytes:
    return _INT16.pack(_GROUP_KEY_VERSION) + _string(group_id)


def group_value(group: StoredGroup) -> bytes:
    parts = [
        _INT16.pack(3),
        _string(group.protocol_type),
        _INT32.pack(group.generation),
        _nullable(group.protocol),
        _nullable(group.leader),
        _INT64.pack(group.state_since_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _nullable(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _TWO_INT32.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def read_key(key: bytes) -> OffsetKey | GroupKey | None:
    """What a record is about; None for the records of other coordinators. Raises CorruptGroupRecord."""
    reader = _Reader(key, "key")
    if reader.version in _OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if reader.version == _GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return None


def read_offset_value(value: bytes) -> CommittedOffset:
    reader = _Reader(value, "offset value")
    reader.check_version(_FLEXIBLE)
    version = reader.version
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    return CommittedOffset(offset, leader_epoch, metadata, commit_ms, None if expire_ms < 0 else expire_ms)


def read_group_value(value: bytes) -> StoredGroup:
    reader = _Reader(value, "group value")
    reader.check_version(_FLEXIBLE)
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    state_since_ms = reader.int64() if reader.version >= 2 else -1
    return StoredGroup(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_since_ms=state_since_ms,
        members=tuple(_read_member(reader) for _ in range(reader.count())),
    )


def group_id_of(key: bytes) -> str:
    """The group a record belongs to: every key of the topic starts with it."""
    return _Reader(key, "key").string()


def offsets_partition(group_id: str, partition_count: int) -> int:
    """The partition of the offsets topic that keeps a group, chosen as Kafka does (Java's
    String.hashCode)."""
    hashed = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        hashed = (hashed * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _string(text: str) -> bytes:
    data = encoded(text)
    return _INT16.pack(len(data)) + data


def _nullable(text: str | None) -> bytes:
    return _NULL if text is None else _string(text)


def _read_member(reader: "_Reader") -> StoredMember:
    version = reader.version
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    member = StoredMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.blob(),
        assignment=reader.blob(),
    )
    if version >= _FLEXIBLE:
        reader.skip_tagged_fields()
    return member


class _Reader:
    """Walks one key or value; whatever is missing or out of range is CorruptGroupRecord."""

    __slots__ = ("_data", "_part", "_position", "version")

    def __init__(self, data: bytes, part: str) -> None:
        self._data = data
        self._part = part
        self._position = 0
        self.version = self._unpack(_INT16)

    def check_version(self, newest: int) -> None:
        if not 0 <= self.version <= newest:
            raise CorruptGroupRecord(self._part, f"has version {self.version}, which is not 0 to {newest}")

    def int32(self) -> int:
        return self._unpack(_INT32)

    def int64(self) -> int:
        return self._unpack(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise CorruptGroupRecord(self._part, "has null where a string must be")
        return text

    def nullable_string(self) -> str | None:
        data = self._take(self._length(_INT16))
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def blob(self) -> bytes:
        return self._take(self._length(_INT32)) or b""

    def count(self) -> int:
        """An array's length; each element takes at least a byte, so it can't exceed what is left."""
        count = self._length(_INT32)
        if not 0 <= count <= len(self._data) - self._position:
            raise CorruptGroupRecord(self._part, f"counts {count} elements, more than its bytes can hold")
        return count

    def skip_tagged_fields(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._take(self._varint())

    def _length(self, kind: struct.Struct) -> int:
        if self.version >= _FLEXIBLE and self._part != "key":
            return self._varint() - 1
        return self._unpack(kind)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptGroupRecord(self._part, "has a length of more than five bytes")

    def _byte(self) -> int:
        if self._position >= len(self._data):
            raise CorruptGroupRecord(self._part, "ends too soon")
        self._position += 1
        return self._data[self._position - 1]

    def _take(self, length: int) -> bytes | None:
        if length == -1:
            return None
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise CorruptGroupRecord(self._part, f"ends before the {length} bytes it announces")
        data = self._data[self._position : end]
        self._position = end
        return data

    def _unpack(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._data, self._position)
        except struct.error:
            raise CorruptGroupRecord(self._part, "ends too soon") from None
        self._position += kind.size
        return int(value)
