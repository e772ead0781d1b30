"""Headers of requests and responses, and the size before each frame.

Why: every request passes here first, so its header is one `struct` call and a few slices.
Invariants: `client_id` is a legacy string even in flexible headers; the response header of ApiVersions is
always version 0, because a client can't know what we speak before it has read that answer.
"""

from functools import cache
from struct import Struct as Packer
from struct import error as StructError
from typing import NamedTuple

from millstream.wire.apis import ApiKey, is_served
from millstream.wire.errors import MalformedRequest, UnsupportedVersion
from millstream.wire.shapes import message
from millstream.wire.varints import Buffer, skip_tags

SIZE_BYTES = 4  # of the length before every frame

_REQUEST = Packer(">hhih")  # key, version, correlation id, length of the client id
_SIZE_AND_ID = Packer(">ii")
_ID = Packer(">i")


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request (`frame` begins behind the size).

    Raises MalformedRequest, or UnsupportedVersion for what we do not serve. The answer to an ApiVersions
    request in a version we do not know is a response of version 0: the error has the correlation id for it.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        is_flexible = _is_flexible(api_key, version)
        position = _REQUEST.size + max(length, 0)
        if position > len(frame):
            raise MalformedRequest(
                f"request header: a client id of {length} bytes in a frame of {len(frame)}"
            )
        # A client id is only shown to people, so one that isn't UTF-8 is not worth a connection.
        client_id = str(frame[_REQUEST.size : position], "utf-8", "replace") if length >= 0 else None
        if is_flexible:
            count = frame[position]
            position += 1
            if count:
                position = skip_tags(frame, position, count, len(frame))
        # As RequestHeader(...), without the call that a NamedTuple makes for it.
        return tuple.__new__(RequestHeader, (api_key, version, correlation_id, client_id, position))
    except (StructError, IndexError):
        raise MalformedRequest(f"request header: it ends after {len(frame)} bytes") from None
    except UnsupportedVersion:
        raise UnsupportedVersion(api_key, version, correlation_id) from None


def response_head(api_key: int, version: int, correlation_id: int, body_size: int) -> bytes:
    """Size and header of a response whose body has `body_size` bytes."""
    if _has_response_tags(api_key, version):
        return _SIZE_AND_ID.pack(body_size + 5, correlation_id) + b"\0"
    return _SIZE_AND_ID.pack(body_size + 4, correlation_id)


def response_frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """The whole response as sent."""
    return response_head(api_key, version, correlation_id, len(body)) + body


def request_frame(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """For clients: the whole request as sent."""
    name = b"" if client_id is None else client_id.encode()
    header = _REQUEST.pack(api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if message(api_key).is_flexible(version):
        header += b"\0"
    return _ID.pack(len(header) + len(body)) + header + body


def parse_response_header(frame: Buffer, api_key: int, version: int) -> tuple[int, int]:
    """For clients: the correlation id, and where the body begins (`frame` begins behind the size)."""
    try:
        correlation_id: int = _ID.unpack_from(frame)[0]
        if not _has_response_tags(api_key, version):
            return correlation_id, _ID.size
        return correlation_id, skip_tags(frame, _ID.size + 1, frame[_ID.size], len(frame))
    except (StructError, IndexError):
        raise MalformedRequest(f"response header: it ends after {len(frame)} bytes") from None


@cache  # bounded: raises for whatever is not in the table of served versions
def _is_flexible(api_key: int, version: int) -> bool:
    if not is_served(api_key, version):
        raise UnsupportedVersion(api_key, version)
    return message(api_key).is_flexible(version)


@cache
def _has_response_tags(api_key: int, version: int) -> bool:
    return api_key != ApiKey.API_VERSIONS and message(api_key).is_flexible(version)
