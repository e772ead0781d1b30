"""The clock as an argument.

Why: retention, timeouts and rebalances must replay from a test without waiting.
Invariants: `monotonic_ms` never goes backwards; `now_ms` is Unix time and may.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, for timestamps that are stored or shown."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start, for timeouts."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
