"""One Kafka connection: frames in, answers out, in order.

Why: requests of one connection may be worked on while earlier ones still wait (for a sync, for news, for a
rebalance), but the protocol wants answers in the order of the requests.
Invariants: calls are answered in the order they came; a connection that has too much unanswered or unsent is not
read from until it has less, and waiting fetches find nothing to read for it; a broken frame closes this connection
and touches no other.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any

from millstream.broker.call import Call
from millstream.broker.cluster import unsupported_api_versions
from millstream.broker.dispatch import HANDLERS
from millstream.broker.fetch import handle_fetch
from millstream.broker.produce import handle_produce
from millstream.model.errors import MillstreamError, PeerError
from millstream.server.receive_buffer import CAPACITY_MIN, ReceiveBuffer
from millstream.wire.apis import PRODUCE_VERSION_MIN, ApiKey
from millstream.wire.errors import UnsupportedVersion
from millstream.wire.frames import parse_header
from millstream.wire.produce import ProduceShape
from millstream.wire.schema import request_reader

if TYPE_CHECKING:
    from millstream.server.kafka_door import KafkaDoor

CALLS_MAX = 128
"""Unanswered requests of one connection before it is not read from."""

OWED_MAX = 1 << 20
"""Bytes of answers gathered for one write."""

COUNT_EVERY = 64 * 1024
"""Bytes written to a connection before the transport is asked how many it still holds."""

_PRODUCE = int(ApiKey.PRODUCE)
_FETCH = int(ApiKey.FETCH)

logger = logging.getLogger(__name__)


class KafkaSession(asyncio.BufferedProtocol):
    __slots__ = (
        "_buffer",
        "_calls",
        "_door",
        "_holds",
        "_is_awaiting_budget",
        "_is_blocked",
        "_is_closed",
        "_is_flush_due",
        "_is_output_full",
        "_is_paused",
        "_is_working",
        "_owed",
        "_tasks",
        "_transport",
        "_uncounted",
        "_unsent",
        "advertised_host",
        "advertised_port",
        "client_host",
        "last_active",
        "produce_shape",
        "request_began",
    )

    def __init__(self, door: "KafkaDoor") -> None:
        self._door = door
        self._buffer = ReceiveBuffer(door.settings.socket_request_max_bytes)
        self._calls: deque[Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: Any = None
        self._is_closed = False
        self._is_paused = False
        self._is_working = False
        self._is_blocked = False
        self._is_flush_due = False
        self._is_output_full = False
        self._owed = 0
        """Bytes of answers that are ready and wait for an earlier one."""
        self._unsent = 0
        """Bytes the transport held when last asked."""
        self._uncounted = 0
        """Bytes written since then."""
        self._is_awaiting_budget = False
        self._holds = 0
        self.client_host = ""
        self.advertised_host = ""
        self.advertised_port = 0
        self.last_active = 0.0
        self.produce_shape: ProduceShape | None = None
        self.request_began: float | None = None
        """When the first byte of an unfinished request came; None between requests."""

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.last_active = self._door.now()
        if not self._door.admit(self):
            self._is_closed = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._door.settings.connection_output_max_bytes)
        peer = transport.get_extra_info("peername") or ("",)
        self.client_host = f"/{peer[0]}"
        reached = transport.get_extra_info("sockname") or ("127.0.0.1", 0)
        self.advertised_host = self._door.settings.advertised_host or str(reached[0])
        self.advertised_port = int(reached[1])

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        for call in self._calls:
            if call.on_abandoned is not None:
                call.on_abandoned()
        self._calls.clear()
        self._door.unsent -= self._unsent
        self._unsent = 0
        freed = self._buffer.capacity
        self._door.dismiss(self)
        self._buffer = ReceiveBuffer(0)
        self._door.budget.give_back(freed - self._buffer.capacity)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, count: int) -> None:
        self._buffer.wrote(count)
        self._door.bytes_in += count
        self.last_active = self._door.now()
        self._work()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_output_full = True

    def resume_writing(self) -> None:
        self._is_output_full = False
        self._work()

    # Requests

    def _work(self) -> None:
        """Take every whole frame that is there, as long as the connection may have more in flight."""
        self._is_working = True
        try:
            is_blocked = self._take_frames()
        except PeerError as error:
            self._flush()
            self.close(str(error))
            return
        finally:
            self._is_working = False
        if self._is_closed:
            return
        self._flush()
        self._is_blocked = is_blocked
        if is_blocked:
            self._pause()
        else:
            self._await_bytes()

    def _take_frames(self) -> bool:
        """Returns whether it stopped because the connection has too much in flight."""
        buffer = self._buffer
        while not self._is_closed:
            if self._holds or self._is_output_full:
                return True
            if len(self._calls) >= CALLS_MAX or self._owed >= OWED_MAX:
                self._flush()
                if len(self._calls) >= CALLS_MAX or self.output_room() <= 0:
                    return True
            frame = buffer.next_frame()
            if frame is None:
                return False
            self.request_began = None
            self._take(frame)
        return False

    def _await_bytes(self) -> None:
        """Make sure there is space for what comes next, within the budget of all connections."""
        buffer = self._buffer
        if buffer.is_empty:
            self.request_began = None
            if self._door.budget.is_contended:
                self._door.budget.give_back(buffer.shrink())
        elif self.request_began is None:
            self.request_began = self.last_active
        growth = buffer.growth()
        if growth and not self._is_awaiting_budget:
            if self._door.budget.take(growth):
                buffer.grow(growth)
            else:
                self._is_awaiting_budget = True
                self._door.budget.wait(growth, lambda: self._got_budget(growth))
        if self._is_awaiting_budget:
            self._pause()
        else:
            self._resume()

    def _got_budget(self, count: int) -> None:
        self._is_awaiting_budget = False
        if self._is_closed:
            self._door.budget.give_back(count)
            return
        self._buffer.grow(count)
        self._resume()

    def _take(self, frame: memoryview) -> None:
        try:
            api_key, version, correlation_id, client_id, position = parse_header(frame)
        except UnsupportedVersion as error:
            self._refuse_version(error)
            return
        call = Call(self, api_key, version, correlation_id, client_id)
        self._calls.append(call)
        began = perf_counter()
        try:
            if api_key == _PRODUCE:
                if version < PRODUCE_VERSION_MIN:
                    raise UnsupportedVersion(api_key, version, correlation_id)
                handle_produce(self._door.broker, call, frame, position)
            elif api_key == _FETCH:
                handle_fetch(self._door.broker, call, frame, position)
            else:
                request = request_reader(api_key, version)(frame, position)
                answer = HANDLERS[api_key](self._door.broker, call, request)
                if type(answer) is dict:
                    call.respond(answer)
                else:
                    self._start(call, answer)
        except PeerError:
            raise
        except Exception as error:
            self.fail(call, error)
        self._door.count_request(api_key, perf_counter() - began)

    def _start(self, call: Call, coroutine: Coroutine[Any, Any, dict[str, Any] | None]) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(call, coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, call: Call, coroutine: Coroutine[Any, Any, dict[str, Any] | None]) -> None:
        try:
            answer = await coroutine
            if answer is not None:
                call.respond(answer)
        except Exception as error:
            self.fail(call, error)

    def _refuse_version(self, error: UnsupportedVersion) -> None:
        if error.api_key != ApiKey.API_VERSIONS:
            raise error
        call = Call(self, ApiKey.API_VERSIONS, 0, error.correlation_id, None)
        self._calls.append(call)
        call.respond(unsupported_api_versions())

    def hold(self) -> None:
        """Take no further request until `release`: the one at hand must be appended first."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if not self._is_closed:
            self._work()

    # Answers

    def answered(self, call: Call) -> None:
        """Send what is due now: at the end of the frames at hand, or of this turn of the event loop.

        One write for many answers: a write costs more than making the answer does.
        """
        calls = self._calls
        self._owed += call.size
        if self._is_working or self._is_closed or not calls or calls[0] is not call:
            return
        if not self._is_flush_due:
            self._is_flush_due = True
            self._door.loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._is_flush_due = False
        if self._is_closed:
            return
        self._flush()
        self.go_on()

    def _flush(self) -> None:
        """Write every answer whose turn it is."""
        calls = self._calls
        buffers: list[Any] = []
        while calls and calls[0].buffers is not None:
            call = calls.popleft()
            buffers += call.buffers  # type: ignore[arg-type]  # not None, as just seen
            self._owed -= call.size
        if not buffers:
            return
        if len(buffers) == 1:
            size = len(buffers[0])
            self._transport.write(buffers[0])
        else:
            size = sum(map(len, buffers))
            self._transport.writelines(buffers)
        self._door.bytes_out += size
        self._uncounted += size
        if self._uncounted > COUNT_EVERY:
            self.count_unsent()

    def go_on(self) -> None:
        """Take requests again, if they were not taken before because too much was on its way."""
        if self._is_blocked and not self._is_output_full and not self._is_closed:
            self._work()

    @property
    def unsent(self) -> int:
        return self._unsent

    def count_unsent(self) -> int:
        """Ask the transport how much it holds; returns it."""
        unsent: int = self._transport.get_write_buffer_size()
        self._door.unsent += unsent - self._unsent
        self._unsent = unsent
        self._uncounted = 0
        return unsent

    def output_room(self) -> int:
        """Bytes of answers that the client may still be owed, ready ones and unsent ones together."""
        room_max = self._door.output_max()
        room = room_max - self._owed - self._unsent - self._uncounted
        return room if room > 0 else room_max - self._owed - self.count_unsent()

    def fail(self, call: Call, error: BaseException) -> None:
        failed = self._door.failed_requests
        failed[call.api_key] = failed.get(call.api_key, 0) + 1
        if isinstance(error, PeerError):
            self.close(str(error))
            return
        logger.error(
            "request %s version %s of %s failed: %s",
            call.api_key,
            call.version,
            self.client_host,
            error,
            exc_info=None if isinstance(error, MillstreamError) else error,
        )
        self.close("the request failed")

    @property
    def is_closing(self) -> bool:
        return self._is_closed

    @property
    def is_awaiting_budget(self) -> bool:
        return self._is_awaiting_budget

    @property
    def budget_taken(self) -> int:
        """Bytes it has taken of the room that all connections share."""
        return self._buffer.capacity - CAPACITY_MIN

    def close(self, reason: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            logger.info("closing the connection of %s: %s", self.client_host, reason)
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once, without waiting for unsent bytes."""
        if not self._is_closed:
            self._is_closed = True
            logger.info("dropping the connection of %s: %s", self.client_host, reason)
        self._transport.abort()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def let_go_of_idle_memory(self) -> None:
        self._door.budget.give_back(self._buffer.shrink())
