"""One budget of bytes for the requests of all connections.

Why: a thousand clients that each announce a large request must not exhaust the memory of the node; they wait
for one another instead.
Invariants: what is taken is given back; waiters are served in order; nobody holds the budget without bytes to show
for it (a session grows its buffer only as bytes arrive, and is closed when it stalls).
"""

from collections import deque
from collections.abc import Callable


class ByteBudget:
    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self._waiters: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def is_contended(self) -> bool:
        return bool(self._waiters)

    def take(self, count: int) -> bool:
        """Take `count` bytes, or nothing. A single request larger than the budget is let in alone."""
        if self._waiters or (self.used + count > self.size and self.used > 0):
            return False
        self.used += count
        return True

    def wait(self, count: int, ready: Callable[[], None]) -> None:
        """Call `ready` when `count` bytes have been taken for the caller."""
        self._waiters.append((count, ready))

    def give_back(self, count: int) -> None:
        self.used -= count
        assert self.used >= 0
        while self._waiters:
            count, ready = self._waiters[0]
            if self.used + count > self.size and self.used > 0:
                return
            self._waiters.popleft()
            self.used += count
            ready()
