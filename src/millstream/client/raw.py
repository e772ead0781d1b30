"""One request and one response over a bare socket, for what the client library doesn't offer.

Why: confluent-kafka has no DescribeLogDirs, and `doctor` wants to know who answers on a port. Both are one
small message; importing a schema library for them would take longer than the whole command.
Invariants: plaintext only; every wait has a limit; a response larger than `RESPONSE_BYTES_MAX` is refused;
malformed bytes raise ProtocolBroken and nothing else. Formats are those of the Kafka protocol guide.
"""

import socket
import struct

from millstream.model.errors import PeerError

RESPONSE_BYTES_MAX = 64 * 1024 * 1024
_CLIENT_ID = b"millstream"


class ProtocolBroken(PeerError):
    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} does not answer as a Kafka broker ({reason}): check host and port")
        self.address = address


def exchange(
    host: str, port: int, *, api_key: int, version: int, body: bytes, flexible: bool, timeout_s: float = 5.0
) -> bytes:
    """The body of the response to one request. `flexible` says that this version's headers carry tags.

    Raises OSError when the broker can't be reached, ProtocolBroken when it answers nonsense or hangs up,
    as Kafka does on a version that it doesn't know.
    """
    header = struct.pack(">hhih", api_key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID
    request = header + (b"\0" if flexible else b"") + body
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4, f"{host}:{port}"))
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            raise ProtocolBroken(f"{host}:{port}", f"a response of {size} bytes")
        response = _receive(connection, size, f"{host}:{port}")
    if response[:4] != struct.pack(">i", 1):
        raise ProtocolBroken(f"{host}:{port}", "a response to another request")
    return response[5 if flexible else 4 :]


def _receive(connection: socket.socket, size: int, address: str) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 65536))
        if not part:
            raise ProtocolBroken(address, "the connection was closed")
        parts += part
    return bytes(parts)


class Cursor:
    """Reads the flexible encoding from a response; running past the end raises ProtocolBroken."""

    def __init__(self, data: bytes, address: str) -> None:
        self._data = data
        self._position = 0
        self._address = address

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ProtocolBroken(self._address, "a truncated response")
        part = self._data[self._position : end]
        self._position = end
        return part

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def boolean(self) -> bool:
        return self.take(1) != b"\0"

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
        raise ProtocolBroken(self._address, "an endless number")

    def count(self) -> int:
        """Length of a compact array; never more than the bytes that remain."""
        count = max(self.unsigned_varint() - 1, 0)
        if count > len(self._data) - self._position:
            raise ProtocolBroken(self._address, "a truncated response")
        return count

    def string(self) -> str:
        return self.take(max(self.unsigned_varint() - 1, 0)).decode("utf-8", "replace")

    def skip_tags(self) -> None:
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self.take(self.unsigned_varint())
