"""The bytes of the offsets topic, held against those that Apache Kafka 4.3.0 wrote.

The vectors were read from `__consumer_offsets` of a Kafka 4.3.0 after confluent-kafka 2.16.1 had consumed and
committed. Our own bytes were given to Kafka's OffsetsMessageFormatter and GroupMetadataMessageFormatter.
"""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.coordination.errors import CorruptGroupRecord
from millstream.coordination.group_records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    group_id_of,
    group_key,
    group_value,
    offset_key,
    offset_value,
    offsets_partition,
    read_group_value,
    read_key,
    read_offset_value,
)

OFFSET_KEY = bytes.fromhex("0001000762696c6c696e6700066f726465727300000001")
OFFSET_VALUE_V1 = bytes.fromhex("0001000000000000000700016d000001a1e15b5f56000001a1e1924dd6")
OFFSET_VALUE_V4 = bytes.fromhex(
    "00040000000000000005ffffffff096e6f746520c3a900000001a1e15b1086010010700f5d74db2f45c784130ac32663deaf"
)
GROUP_KEY = bytes.fromhex("0002000762696c6c696e67")
EMPTY_GROUP_VALUE = bytes.fromhex("00030008636f6e73756d657200000002ffffffff000001a1e15b109d00000000")
NEW_GROUP_VALUE = bytes.fromhex("0003000000000000ffffffff000001a1e15b0f3e00000000")
STATIC_GROUP_VALUE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e6765002b74696c6c2d312d61333239353337352d666665632d343337372d"
    "623634352d373835636664666333646133000001a1e15b10ec00000001002b74696c6c2d312d61333239353337352d66666563"
    "2d343337372d623634352d373835636664666333646133000674696c6c2d31000473686f70000a2f3132372e302e302e310000"
    "2710000017700000001c00030000000100066f72646572730000000000000000ffffffff00000000001e00000000000100066f"
    "726465727300000002000000000000000100000000"
)
DYNAMIC_GROUP_VALUE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e6765002973686f702d64646464303861382d653064302d346633642d6235"
    "39362d313865633666613766363537000001a1e15b0f8800000001002973686f702d64646464303861382d653064302d346633"
    "642d623539362d313865633666613766363537ffff000473686f70000a2f3132372e302e302e3100002710000017700000001c"
    "00030000000100066f72646572730000000000000000ffffffff00000000001e00000000000100066f72646572730000000200"
    "0000000000000100000000"
)

STATIC_GROUP = StoredGroup(
    protocol_type="consumer",
    generation=1,
    protocol="range",
    leader="till-1-a3295375-ffec-4377-b645-785cfdfc3da3",
    state_since_ms=0x1A1E15B10EC,
    members=(
        StoredMember(
            member_id="till-1-a3295375-ffec-4377-b645-785cfdfc3da3",
            group_instance_id="till-1",
            client_id="shop",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=10_000,
            session_timeout_ms=6_000,
            subscription=bytes.fromhex("00030000000100066f72646572730000000000000000ffffffff0000"),
            assignment=bytes.fromhex("00000000000100066f726465727300000002000000000000000100000000"),
        ),
    ),
)


# What Kafka wrote


def test_an_offset_key_is_kafkas():
    assert offset_key("billing", "orders", 1) == OFFSET_KEY
    assert read_key(OFFSET_KEY) == OffsetKey("billing", "orders", 1)


def test_a_group_key_is_kafkas():
    assert group_key("billing") == GROUP_KEY
    assert read_key(GROUP_KEY) == GroupKey("billing")


def test_an_offset_with_a_retention_of_its_own_is_kafkas():
    committed = CommittedOffset(7, -1, "m", 0x1A1E15B5F56, 0x1A1E1924DD6)

    assert offset_value(committed) == OFFSET_VALUE_V1
    assert read_offset_value(OFFSET_VALUE_V1) == committed


def test_an_offset_in_kafkas_newest_format_is_read():
    assert read_offset_value(OFFSET_VALUE_V4) == CommittedOffset(5, -1, "note é\0", 0x1A1E15B1086)


def test_a_group_with_a_static_member_is_kafkas():
    assert group_value(STATIC_GROUP) == STATIC_GROUP_VALUE
    assert read_group_value(STATIC_GROUP_VALUE) == STATIC_GROUP


@pytest.mark.parametrize("value", [DYNAMIC_GROUP_VALUE, EMPTY_GROUP_VALUE, NEW_GROUP_VALUE])
def test_what_kafka_wrote_is_written_the_same(value):
    assert group_value(read_group_value(value)) == value


def test_an_empty_group_has_no_protocol_and_no_leader():
    assert read_group_value(EMPTY_GROUP_VALUE) == StoredGroup(
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        state_since_ms=0x1A1E15B109D,
        members=(),
    )


# Formats of older and newer Kafkas


def test_an_offset_of_version_0_has_neither_epoch_nor_expiry():
    value = struct.pack(">hqh1sq", 0, 5, 1, b"m", 9)

    assert read_offset_value(value) == CommittedOffset(5, -1, "m", 9)


def test_an_offset_of_version_1_without_expiry_has_none():
    value = struct.pack(">hqh1sqq", 1, 5, 1, b"m", 9, -1)

    assert read_offset_value(value) == CommittedOffset(5, -1, "m", 9)


def test_a_group_of_version_0_has_no_timestamp_and_its_members_one_timeout():
    member = b"\x00\x01a" + b"\x00\x01c" + b"\x00\x01h" + struct.pack(">iiii", 6_000, 0, 0, 0)[:12]
    value = struct.pack(">hh1sihh", 0, 1, b"x", 4, -1, -1) + struct.pack(">i", 1) + member

    group = read_group_value(value)

    assert group.state_since_ms == -1
    assert group.members[0].rebalance_timeout_ms == 6_000
    assert group.members[0].group_instance_id is None


def test_a_group_of_version_4_is_read():
    member = b"\x02a\x02i\x02c\x02h" + struct.pack(">ii", 60_000, 6_000) + b"\x02s\x03as" + b"\x01\x05\x02xx"
    value = struct.pack(">h", 4) + b"\x02x" + struct.pack(">i", 4) + b"\x00\x02a" + struct.pack(">q", 9)
    value += b"\x02" + member + b"\x00"

    assert read_group_value(value) == StoredGroup(
        protocol_type="x",
        generation=4,
        protocol=None,
        leader="a",
        state_since_ms=9,
        members=(
            StoredMember(
                member_id="a",
                group_instance_id="i",
                client_id="c",
                client_host="h",
                rebalance_timeout_ms=60_000,
                session_timeout_ms=6_000,
                subscription=b"s",
                assignment=b"as",
            ),
        ),
    )


def test_a_key_of_another_coordinator_is_nobodys_here_but_names_its_group():
    key = struct.pack(">hh", 3, 1) + b"g"

    assert read_key(key) is None
    assert group_id_of(key) == "g"


# Where a group is kept


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("billing", 9), ("", 0), ("é水", 23), ("𝄞", 44), ("polygenelubricants", 0)],
)
def test_a_group_is_kept_where_kafka_keeps_it(group_id, partition):
    assert offsets_partition(group_id, 50) == partition


# Garbage and round trips


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x05rest", b"\xff\xffrest"])
def test_a_value_of_no_known_version_is_corrupt(value):
    with pytest.raises(CorruptGroupRecord):
        read_offset_value(value)
    with pytest.raises(CorruptGroupRecord):
        read_group_value(value)


@pytest.mark.parametrize("cut", range(len(STATIC_GROUP_VALUE)))
def test_a_group_value_that_is_cut_anywhere_is_corrupt(cut):
    with pytest.raises(CorruptGroupRecord):
        read_group_value(STATIC_GROUP_VALUE[:cut])


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_corrupt(data):
    for read in (read_key, read_offset_value, read_group_value, group_id_of):
        with suppress(CorruptGroupRecord):
            read(data)


@given(st.integers(0, 4), st.binary(max_size=80))
def test_any_bytes_behind_a_known_version_are_a_record_or_corrupt(version, data):
    for read in (read_key, read_offset_value, read_group_value):
        with suppress(CorruptGroupRecord):
            read(struct.pack(">h", version) + data)


def any_string():
    return st.binary(max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape"))


def int64():
    return st.integers(-(2**63), 2**63 - 1)


def int32():
    return st.integers(-(2**31), 2**31 - 1)


@given(any_string(), any_string(), int32())
def test_offset_keys_survive_their_format(group_id, topic, partition):
    assert read_key(offset_key(group_id, topic, partition)) == OffsetKey(group_id, topic, partition)


@given(st.builds(CommittedOffset, int64(), int32(), any_string(), int64(), st.none()))
def test_offsets_survive_their_format(committed):
    assert read_offset_value(offset_value(committed)) == committed


@given(st.builds(CommittedOffset, int64(), st.just(-1), any_string(), int64(), st.integers(0, 2**63 - 1)))
def test_offsets_with_a_retention_of_their_own_survive_their_format(committed):
    assert read_offset_value(offset_value(committed)) == committed


@given(
    st.builds(
        StoredGroup,
        protocol_type=any_string(),
        generation=int32(),
        protocol=st.none() | any_string(),
        leader=st.none() | any_string(),
        state_since_ms=int64(),
        members=st.lists(
            st.builds(
                StoredMember,
                member_id=any_string(),
                group_instance_id=st.none() | any_string(),
                client_id=any_string(),
                client_host=any_string(),
                rebalance_timeout_ms=st.integers(0, 2**31 - 1),
                session_timeout_ms=int32(),
                subscription=st.binary(max_size=12),
                assignment=st.binary(max_size=12),
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_groups_survive_their_format(group):
    assert read_group_value(group_value(group)) == group
