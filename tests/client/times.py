"""A present that tests share: retention goes by record timestamps, so it must be the real one.

`NOW_MS` is when the suite began, minutes before a test may run; `now_ms` is for what is compared with the clock.
"""

import time


def now_ms() -> int:
    return time.time_ns() // 1_000_000


NOW_MS = now_ms()
MINUTE_MS = 60_000
