"""A Kafka connection without a client's opinions.

Why: real clients never send what is wrong, old or odd; these cases need every byte under control.
Invariants: kio is the codec here, so that our own codec is not judged by itself; each socket call has a
timeout; responses are taken in the order they arrive and their correlation id is checked.
"""

import datetime
import io
import socket
import struct
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, TracebackType
from typing import Any, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

API_KEYS = {name: key for key, name in api_key_map.items()}
TIMEOUT_S = 60.0
CLIENT_ID = "raw"


class ConnectionClosed(Exception):
    """The broker ended the connection instead of answering."""


class RawConnection:
    """One socket to a broker; `call` for question and answer, `send` and `receive` to pipeline."""

    def __init__(self, address: str, *, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, api: str, version: int, **body: object) -> Any:
        """Send one request and give its response as kio's dataclass."""
        return self.receive(api, version, self.send(api, version, **body))

    def send(self, api: str, version: int, **body: object) -> int:
        """Send one request; the answer is its correlation id."""
        self._correlation_id += 1
        self.send_bytes(framed(request_bytes(api, version, body, self._correlation_id)))
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        return response_entity(api, version, self.receive_frame(), correlation_id)

    def receive_frame(self) -> bytes:
        """The next response without its length; raises ConnectionClosed, or TimeoutError."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def is_closed_by_peer(self) -> bool:
        """Whether the broker ends the connection; waits for it up to the timeout."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                part = self.socket.recv(size - len(received))
            except ConnectionError as error:
                raise ConnectionClosed(str(error)) from None
            if not part:
                raise ConnectionClosed(f"after {len(received)} of {size} bytes")
            received += part
        return bytes(received)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def request_bytes(api: str, version: int, body: Mapping[str, object], correlation_id: int) -> bytes:
    """Header and body of a request. Fields left out take the schema's default, or a plain zero."""
    schema: Any = load_request_schema(API_KEYS[api], version)
    header_schema = schema.__header_schema__
    named = {
        "request_api_key": API_KEYS[api],
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": CLIENT_ID,
    }
    header = header_schema(**{field.name: named[field.name] for field in fields(header_schema)})
    written = io.BytesIO()
    entity_writer(header_schema)(written, header)
    entity_writer(schema)(written, built(schema, body))
    return written.getvalue()


def response_entity(api: str, version: int, frame: bytes, correlation_id: int) -> Any:
    schema: Any = load_response_schema(API_KEYS[api], version)
    header, header_size = entity_reader(schema.__header_schema__)(frame, 0)
    assert header.correlation_id == correlation_id, f"{header.correlation_id} answers {correlation_id}"
    entity, size = entity_reader(schema)(frame, header_size)
    assert header_size + size == len(frame), "bytes are left over after the response"
    return entity


def built(schema: Any, values: Mapping[str, object]) -> Any:
    """kio's dataclass from nested dicts and lists; a name the schema lacks is a mistake of the test."""
    known = {field.name: field for field in fields(schema)}
    unknown = values.keys() - known.keys()
    assert not unknown, f"{schema.__module__} has no {sorted(unknown)}, only {sorted(known)}"
    arguments = {}
    for name, field in known.items():
        if name in values:
            arguments[name] = _converted(field.type, values[name])
        elif field.default is MISSING and field.default_factory is MISSING:
            arguments[name] = _zero(field.type)
    return schema(**arguments)


def _converted(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    options = [option for option in get_args(kind) if option is not NoneType]
    if get_origin(kind) is tuple:
        return tuple(_converted(options[0], item) for item in value)
    if NoneType in get_args(kind):
        return _converted(options[0], value)
    if is_dataclass(kind):
        return built(kind, value)
    if isinstance(kind, type) and issubclass(kind, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    return value


def _zero(kind: Any) -> Any:
    if NoneType in get_args(kind):
        return None
    if get_origin(kind) is tuple:
        return ()
    if is_dataclass(kind):
        return built(kind, {})
    if issubclass(kind, datetime.timedelta):
        return datetime.timedelta()
    for plain, zero in ((bool, False), (int, 0), (float, 0.0), (str, ""), (bytes, b"")):
        if issubclass(kind, plain):
            return zero
    raise TypeError(f"no zero for {kind}")
