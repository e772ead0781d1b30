"""Whatever the bytes, a reader returns a message or raises MalformedRequest: nothing else, nothing huge."""

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.wire.apis import PRODUCE_VERSION_MIN, SERVED, ApiKey
from millstream.wire.errors import MalformedRequest
from millstream.wire.schema import ELEMENTS_MAX, request_reader, request_writer, response_reader
from millstream.wire.struct import Struct
from millstream.wire.varints import put_uvarint
from tests.wire.oracle import kio_bytes, random_values, schema_class, to_kio

REQUESTS = [
    (key, version)
    for key, (first, last) in SERVED.items()
    for version in range(max(first, PRODUCE_VERSION_MIN) if key is ApiKey.PRODUCE else first, last + 1)
]
IDS = [f"{key.name}-{version}" for key, version in REQUESTS]


def sample(key: ApiKey, version: int, seed: int) -> bytes:
    cls = schema_class(key, version, "request")
    return kio_bytes(to_kio(cls, random_values(cls, random.Random(seed))))


def read(key: ApiKey, version: int, data: bytes) -> Struct | None:
    """The message, or None if it was refused. Any other error passes and fails the test."""
    try:
        return request_reader(key, version)(data, 0)
    except MalformedRequest:
        return None


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(REQUESTS), st.binary(max_size=400))
def test_arbitrary_bytes_are_read_or_refused(request: tuple[ApiKey, int], data: bytes) -> None:
    read(*request, data)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(REQUESTS), st.integers(0, 7), st.data())
def test_a_message_with_changed_bytes_is_read_or_refused(
    request: tuple[ApiKey, int], seed: int, draw: st.DataObject
) -> None:
    data = bytearray(sample(*request, seed) or b"\0")
    for place in draw.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=4)):
        data[place] = draw.draw(st.integers(0, 255))

    read(*request, bytes(data))


@pytest.mark.parametrize(("key", "version"), REQUESTS, ids=IDS)
def test_a_message_cut_anywhere_is_refused(key: ApiKey, version: int) -> None:
    data = min(
        (sample(key, version, seed) for seed in range(5)), key=lambda found: (len(found) < 8, len(found))
    )

    survivors = [size for size in range(len(data)) if read(key, version, data[:size]) is not None]

    assert survivors == []


@pytest.mark.parametrize(("key", "version"), REQUESTS, ids=IDS)
def test_bytes_behind_a_message_are_ignored_as_kafka_does(key: ApiKey, version: int) -> None:
    data = sample(key, version, 1)

    assert read(key, version, data + b"\0") is not None


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_built() -> None:
    two_billion_topics = b"\x7f\xff\xff\xff" + b"\0" * 1000
    tracemalloc.start()

    found = read(ApiKey.METADATA, 1, two_billion_topics)

    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is None
    assert peak_bytes < 100_000


def test_more_elements_than_a_node_could_use_are_refused() -> None:
    empty_group = b"\x01\x01\x00"  # three bytes that would become an object
    count = ELEMENTS_MAX + 1
    head = bytearray()
    put_uvarint(head, count + 1)

    with pytest.raises(MalformedRequest, match="too many elements"):
        request_reader(ApiKey.OFFSET_FETCH, 8)(bytes(head) + empty_group * count, 0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff\xff\xff\xff\xff\x01", "varint of more than five bytes"),
        (b"\xff\xff\xff\xff\x0f", "bytes are announced"),
        (b"\x05abc", "bytes are announced"),
        (b"\x00", "may not be"),
        (b"\x03\xff\xfe", "UTF-8"),
        (b"", "ends too early"),
    ],
)
def test_a_refusal_says_what_is_wrong(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedRequest, match=reason):
        request_reader(ApiKey.HEARTBEAT, 4)(body, 0)


def test_null_is_taken_only_where_the_version_has_it() -> None:
    null_topics = b"\xff\xff\xff\xff"

    assert request_reader(ApiKey.METADATA, 1)(null_topics, 0).topics is None
    assert read(ApiKey.METADATA, 0, null_topics) is None


def tagged(tags: bytes) -> bytes:
    """A Heartbeat of version 4 with these tagged fields."""
    fields: dict[str, Any] = {"group_id": "g", "member_id": "m"}
    return request_writer(ApiKey.HEARTBEAT, 4)(fields)[:-1] + tags


def test_unknown_tagged_fields_are_skipped() -> None:
    found = read(ApiKey.HEARTBEAT, 4, tagged(b"\x02\x07\x03abc\x90\x01\x00"))

    assert found == read(ApiKey.HEARTBEAT, 4, tagged(b"\x00"))


@pytest.mark.parametrize(
    "tags", [b"\x01", b"\x01\x07\x04abc", b"\xff\xff\xff\xff\x07", b"\x02\x07\x03abc"], ids=repr
)
def test_tagged_fields_that_pass_the_end_are_refused(tags: bytes) -> None:
    assert read(ApiKey.HEARTBEAT, 4, tagged(tags)) is None


def test_a_known_tagged_field_must_have_the_size_it_announces() -> None:
    # ApiVersions 3: tag 1 is an int64.

    right = b"\0\0\x01\0\0\0\0\x01\x01\x08" + b"\0" * 7 + b"\x05"
    wrong = b"\0\0\x01\0\0\0\0\x01\x01\x09" + b"\0" * 7 + b"\x05\0"

    assert response_reader(ApiKey.API_VERSIONS, 3)(right, 0).finalized_features_epoch == 5
    with pytest.raises(MalformedRequest, match="wrong size"):
        response_reader(ApiKey.API_VERSIONS, 3)(wrong, 0)
