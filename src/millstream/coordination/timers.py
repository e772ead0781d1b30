"""Deadlines of members and groups, in one heap.

Why: ten thousand members send a heartbeat every few seconds, and nearly none of their deadlines is ever
reached.
Invariants: a timer fires at most once for each start, never before its deadline, in the order of deadlines.
Moving a deadline later costs one assignment: the timer keeps its place in the heap, and is put back when that
place comes up too early. The heap never holds more than twice as many entries as timers that run, plus 64.
"""

import heapq
from enum import Enum, auto
from typing import Any

_STALE_FLOOR = 64


class TimerKind(Enum):
    SESSION = auto()
    """A member has not been heard from."""
    PENDING = auto()
    """A member id was handed out and nobody joined with it."""
    JOIN = auto()
    """Members had their time to rejoin."""
    SYNC = auto()
    """Members had their time to fetch their assignment."""
    SWEEP = auto()
    """Offsets may have expired."""


class Timer:
    __slots__ = ("_queued_ms", "deadline_ms", "group", "kind", "member_id")

    def __init__(self, kind: TimerKind, group: Any = None, member_id: str = "") -> None:
        self.kind = kind
        self.group = group
        self.member_id = member_id
        self.deadline_ms: int | None = None
        self._queued_ms: int | None = None
        """The time of this timer's one valid entry in the heap; other entries of it are stale."""


class Timers:
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._queued = 0

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, timer: Timer, deadline_ms: int) -> None:
        """Set or move the deadline."""
        timer.deadline_ms = deadline_ms
        queued_ms = timer._queued_ms
        if queued_ms is None:
            self._queued += 1
            self._push(timer, deadline_ms)
        elif deadline_ms < queued_ms:
            self._push(timer, deadline_ms)

    def stop(self, timer: Timer) -> None:
        timer.deadline_ms = None
        if timer._queued_ms is not None:
            timer._queued_ms = None
            self._queued -= 1
            self._drop_stale()

    def pop_due(self, now_ms: int) -> Timer | None:
        """The next timer whose deadline is reached, stopped; None when there is none."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, timer = heapq.heappop(self._heap)
            if timer._queued_ms != queued_ms:
                continue
            deadline_ms = timer.deadline_ms
            if deadline_ms is not None and deadline_ms > queued_ms:
                self._push(timer, deadline_ms)
                continue
            self.stop(timer)
            return timer
        return None

    def next_deadline_ms(self) -> int | None:
        """No timer fires before this; it may turn out that none fires then."""
        return self._heap[0][0] if self._heap else None

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        timer._queued_ms = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))
        self._drop_stale()

    def _drop_stale(self) -> None:
        if len(self._heap) <= _STALE_FLOOR + 2 * self._queued:
            return
        newest: dict[int, tuple[int, int, Timer]] = {}
        for entry in self._heap:
            timer = entry[2]
            if timer._queued_ms == entry[0]:
                newest[id(timer)] = entry
        self._heap = list(newest.values())
        heapq.heapify(self._heap)
