"""Headers, and the frames around them."""

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.request_header.v1 import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2 import RequestHeader as KioHeaderV2
from kio.schema.response_header.v1 import ResponseHeader as KioResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from millstream.wire.apis import SERVED, ApiKey, is_served
from millstream.wire.errors import ErrorCode, MalformedRequest, UnsupportedVersion
from millstream.wire.frames import (
    parse_header,
    parse_response_header,
    request_frame,
    response_frame,
    response_head,
)


def kio_header(cls: type, key: int, version: int, client_id: str | None) -> bytes:
    buffer = io.BytesIO()
    header = cls(
        request_api_key=i16(key),
        request_api_version=i16(version),
        correlation_id=i32(77),
        client_id=client_id,
    )
    entity_writer(cls)(buffer, header)
    return buffer.getvalue()


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "größe"])
@pytest.mark.parametrize(("version", "cls"), [(8, KioHeaderV1), (9, KioHeaderV2)], ids=["legacy", "flexible"])
def test_the_header_is_read_by_the_flexibility_of_its_request(
    version: int, cls: type, client_id: str | None
) -> None:
    header = kio_header(cls, ApiKey.METADATA, version, client_id)

    found = parse_header(memoryview(header + b"body"))

    assert found.body_position == len(header)
    assert found == (ApiKey.METADATA, version, 77, client_id, len(header))


def test_unknown_tags_of_a_header_are_skipped() -> None:
    header = kio_header(KioHeaderV2, ApiKey.METADATA, 9, "c")[:-1] + b"\x01\x05\x02ab"

    assert parse_header(header + b"body").body_position == len(header)


def test_a_client_id_that_is_not_text_does_not_cost_the_connection() -> None:
    header = b"\0\x03\0\0\0\0\0\x01\0\x02\xff\xfe"

    assert parse_header(header).client_id == "\ufffd\ufffd"


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (4, 0), (1, 3), (18, 5), (999, 0), (-1, 0)])
def test_what_is_not_served_is_refused_with_its_correlation_id(key: int, version: int) -> None:
    header = kio_header(KioHeaderV2, key, version, "c")

    with pytest.raises(UnsupportedVersion) as caught:
        parse_header(header)

    assert (caught.value.api_key, caught.value.version, caught.value.correlation_id) == (key, version, 77)


@given(st.binary(max_size=60))
@example(b"\0\x03\0\x09\0\0\0\0\xff\xff\xff")
@example(b"\0\x03\0\x01\0\0\0\0\x7f\xffabc")
def test_arbitrary_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        found = parse_header(data)
    except (MalformedRequest, UnsupportedVersion):
        return
    assert 10 <= found.body_position <= len(data)


def test_a_header_cut_anywhere_is_refused() -> None:
    header = kio_header(KioHeaderV2, ApiKey.METADATA, 9, "client")

    for size in range(len(header)):
        with pytest.raises(MalformedRequest):
            parse_header(header[:size])


def test_a_flexible_response_has_tags_in_its_header() -> None:
    frame = response_frame(ApiKey.METADATA, 9, 77, b"body")

    header, size = entity_reader(KioResponseHeader)(frame, 4)

    assert frame[:4] == b"\0\0\0\x09"
    assert header.correlation_id == 77
    assert frame[4 + size :] == b"body"


@pytest.mark.parametrize(("key", "version"), [(ApiKey.API_VERSIONS, 4), (ApiKey.METADATA, 8)])
def test_apiversions_and_legacy_responses_have_only_a_correlation_id(key: ApiKey, version: int) -> None:
    assert response_frame(key, version, 77, b"body") == b"\0\0\0\x08\0\0\0\x4dbody"


def test_a_head_counts_a_body_that_follows_in_parts() -> None:
    assert response_head(ApiKey.METADATA, 9, 77, 4) + b"body" == response_frame(
        ApiKey.METADATA, 9, 77, b"body"
    )


@pytest.mark.parametrize("version", [8, 9])
def test_clients_can_write_requests_and_read_response_headers(version: int) -> None:
    request = request_frame(ApiKey.METADATA, version, 5, "me", b"question")
    response = response_frame(ApiKey.METADATA, version, 5, b"answer")

    header = parse_header(request[4:])
    correlation_id, position = parse_response_header(response[4:], ApiKey.METADATA, version)

    assert header[:4] == (ApiKey.METADATA, version, 5, "me")
    assert request[4:][header.body_position :] == b"question"
    assert (correlation_id, response[4:][position:]) == (5, b"answer")


def test_error_codes_are_those_of_kio() -> None:
    ours = {code.name: int(code) for code in ErrorCode}

    theirs = {code.name.upper(): int(code) for code in KioErrorCode}

    assert ours == theirs


def test_every_key_is_served_within_its_range_only() -> None:
    assert all(is_served(key, first) and is_served(key, last) for key, (first, last) in SERVED.items())
    assert not any(
        is_served(key, first - 1) or is_served(key, last + 1) for key, (first, last) in SERVED.items()
    )
