"""Our codec agrees with kio's, in every message and version that we serve."""

import json
import random
from typing import Any

import pytest

from millstream.wire.apis import PRODUCE_VERSION_MIN, SERVED, ApiKey
from millstream.wire.errors import UnsupportedVersion
from millstream.wire.schema import (
    ZERO_UUID,
    describe,
    request_reader,
    request_writer,
    response_reader,
    response_writer,
    unknown_keys,
)
from millstream.wire.shapes import message
from millstream.wire.struct import Struct, as_dict
from tests.wire import extract
from tests.wire.oracle import kio_bytes, kio_read, random_values, schema_class, to_kio

READERS = {"request": request_reader, "response": response_reader}
WRITERS = {"request": request_writer, "response": response_writer}
MESSAGES = [
    pytest.param(key, version, side, id=f"{key.name}-{version}-{side}")
    for key in ApiKey
    for version in range(message(key).versions[0], message(key).versions[1] + 1)
    for side in ("request", "response")
]
SAMPLES = 8


def test_the_stored_messages_are_those_of_kio() -> None:
    assert json.loads(extract.PATH.read_text()) == extract.extract()


@pytest.mark.parametrize("key", SERVED)
def test_every_served_version_has_a_schema(key: ApiKey) -> None:
    first, last = SERVED[key]

    known_first, known_last = message(key).versions

    assert known_first <= max(first, PRODUCE_VERSION_MIN if key is ApiKey.PRODUCE else first)
    assert last <= known_last


@pytest.mark.parametrize(("key", "version", "side"), MESSAGES)
def test_what_kio_writes_we_read(key: ApiKey, version: int, side: str) -> None:
    cls, read = schema_class(key, version, side), READERS[side](key, version)
    for seed in range(SAMPLES):
        values = random_values(cls, random.Random(seed))

        found = as_dict(read(b"header" + kio_bytes(to_kio(cls, values)), 6))

        assert found == values


@pytest.mark.parametrize(("key", "version", "side"), MESSAGES)
def test_what_we_write_kio_reads(key: ApiKey, version: int, side: str) -> None:
    cls, write = schema_class(key, version, side), WRITERS[side](key, version)
    for seed in range(SAMPLES):
        values = random_values(cls, random.Random(seed))

        found = kio_read(cls, write(values))

        assert found == to_kio(cls, values)


@pytest.mark.parametrize(("key", "version", "side"), MESSAGES)
def test_an_empty_message_is_written_and_read_with_defaults(key: ApiKey, version: int, side: str) -> None:
    data = WRITERS[side](key, version)({})

    found = READERS[side](key, version)(data, 0)

    assert WRITERS[side](key, version)(as_dict(found)) == data


def test_a_request_can_be_read_from_any_kind_of_buffer() -> None:
    data = request_writer(ApiKey.HEARTBEAT, 4)({"group_id": "g", "member_id": "m"})
    read = request_reader(ApiKey.HEARTBEAT, 4)

    found = [read(kind(data), 0) for kind in (bytes, bytearray, memoryview)]

    assert found[0] == found[1] == found[2]


def test_records_are_views_of_the_buffer_and_not_copies() -> None:
    data = bytearray(
        request_writer(ApiKey.PRODUCE, 9)(
            {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": b"batch"}]}]}
        )
    )

    request = request_reader(ApiKey.PRODUCE, 9)(data, 0)
    records = request.topic_data[0].partition_data[0].records
    records[0:1] = b"B"

    assert bytes(records) == b"Batch"
    assert b"Batch" in data


def test_fields_of_other_versions_are_there_with_their_default() -> None:
    old = request_reader(ApiKey.JOIN_GROUP, 0)(
        request_writer(ApiKey.JOIN_GROUP, 0)({"group_id": "g", "session_timeout_ms": 10}), 0
    )
    new = request_reader(ApiKey.FIND_COORDINATOR, 6)(
        request_writer(ApiKey.FIND_COORDINATOR, 6)({"coordinator_keys": ["g"]}), 0
    )

    assert (old.session_timeout_ms, old.rebalance_timeout_ms) == (10, -1)
    assert old.group_instance_id is None
    assert old.protocols == []
    assert (new.coordinator_keys, new.key) == (["g"], "")


def test_absent_structs_and_ids_have_their_defaults_too() -> None:
    fetch = request_reader(ApiKey.FETCH, 4)(request_writer(ApiKey.FETCH, 4)({"topics": [{"topic": "t"}]}), 0)

    assert fetch.topics[0].topic_id == ZERO_UUID
    assert fetch.replica_state.replica_epoch == -1
    assert list(fetch.forgotten_topics_data) == []


def test_keys_that_a_version_does_not_know_are_ignored() -> None:
    write = response_writer(ApiKey.HEARTBEAT, 0)

    assert write({"error_code": 25, "throttle_time_ms": 7}) == b"\x00\x19"


def test_null_is_written_as_empty_in_versions_without_null() -> None:
    response: dict[str, Any] = {"protocol_name": None, "leader": "m", "members": []}

    old = response_reader(ApiKey.JOIN_GROUP, 6)(response_writer(ApiKey.JOIN_GROUP, 6)(response), 0)
    new = response_reader(ApiKey.JOIN_GROUP, 7)(response_writer(ApiKey.JOIN_GROUP, 7)(response), 0)

    assert (old.protocol_name, new.protocol_name) == ("", None)


def test_unknown_keys_are_found_wherever_they_are() -> None:
    response = {
        "throttle_time": 0,
        "topics": [{"name": "t", "partitions": [{"partition": 0, "error_code": 0}]}],
        "cluster_id": None,
    }

    assert unknown_keys(ApiKey.METADATA, response) == ["throttle_time", "topics[].partitions[].partition"]


def test_describe_names_fields_types_and_tags() -> None:
    lines = describe(ApiKey.FETCH, 12)

    assert "cluster_id: string or null (tag 0)" in lines
    assert "topics[].partitions[].fetch_offset: int64" in lines


@pytest.mark.parametrize(("key", "version"), [(ApiKey.PRODUCE, 2), (ApiKey.FETCH, 19), (4, 0), (999, 0)])
def test_a_version_without_a_schema_is_refused(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        request_reader(key, version)


def test_a_value_that_does_not_fit_is_reported_with_its_message() -> None:
    with pytest.raises(Exception, match="argument") as caught:
        response_writer(ApiKey.HEARTBEAT, 4)({"error_code": "UNKNOWN_MEMBER_ID"})

    assert caught.value.__notes__ == ["while writing HeartbeatResponse in version 4"]


def test_structs_made_by_hand_equal_those_that_were_read() -> None:
    data = request_writer(ApiKey.HEARTBEAT, 0)({"group_id": "g", "generation_id": 3, "member_id": "m"})

    found = request_reader(ApiKey.HEARTBEAT, 0)(data, 0)

    assert found == Struct(group_id="g", generation_id=3, member_id="m")
    assert repr(found) == "HeartbeatRequest(group_id='g', generation_id=3, member_id='m')"
