"""A present that tests share: retention goes by record timestamps, so it must be the real one."""

import time

NOW_MS = time.time_ns() // 1_000_000
MINUTE_MS = 60_000
