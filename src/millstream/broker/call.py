"""One request on its way through the broker, and the place its answer goes.

Why: some answers wait (a sync, a long poll, a rebalance) while later requests of the same connection are already
worked on. A call keeps the answer's place in line.
Invariants: a call is answered or dropped exactly once; the connection sends answers in the order of the calls.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from millstream.wire.apis import ApiKey
from millstream.wire.frames import response_frame
from millstream.wire.produce import ProduceShape
from millstream.wire.schema import response_writer

Buffer = bytes | bytearray | memoryview


class CallSink(Protocol):
    """The connection, seen from a call."""

    client_host: str
    advertised_host: str
    advertised_port: int
    produce_shape: ProduceShape | None
    """The shape of the last produce request, if it had one."""

    def answered(self, call: "Call") -> None:
        """The call's buffers are ready to be sent when its turn comes."""

    def fail(self, call: "Call", error: BaseException) -> None:
        """The handler broke: there is no answer, the connection can't go on."""

    def hold(self) -> None:
        """Take no further request of this connection until `release`."""

    def release(self) -> None:
        """Go on with the requests that wait."""

    def output_room(self) -> int:
        """Bytes of answers that this connection may still owe its client, who may not be reading them."""


class Call:
    __slots__ = (
        "api_key",
        "buffers",
        "client_id",
        "correlation_id",
        "on_abandoned",
        "sink",
        "size",
        "version",
    )

    def __init__(
        self, sink: CallSink, api_key: int, version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.sink = sink
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.buffers: Sequence[Buffer] | None = None
        """None until answered; empty when there is nothing to send."""
        self.size = 0
        """Bytes of the answer, where they are worth counting."""
        self.on_abandoned: Callable[[], None] | None = None
        """For an answer that waits: called if the connection goes before it is given."""

    def respond(self, response: dict[str, Any]) -> None:
        """Answer with the fields of the API's newest version; those this version lacks are left out."""
        try:
            body = response_writer(ApiKey(self.api_key), self.version)(response)
        except Exception as error:
            self.sink.fail(self, error)
            return
        frame = response_frame(ApiKey(self.api_key), self.version, self.correlation_id, body)
        self.send((frame,), len(frame))

    def send(self, buffers: Sequence[Buffer], size: int = 0) -> None:
        """Answer with a whole frame; `size` is its bytes, unless they are few."""
        self.buffers = buffers
        self.size = size
        self.sink.answered(self)

    def drop(self) -> None:
        """The protocol wants no answer (acks=0)."""
        self.send(())

    @property
    def client_host(self) -> str:
        return self.sink.client_host
