"""Waiting for a condition instead of for a time.

Why: a test must hold on a machine ten times slower than ours, and still be quick on a fast one.
Invariants: nothing here asserts how fast something happened; a deadline only ends a hopeless wait.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0


def eventually(
    condition: Callable[[], T | None], *, within_s: float = DEADLINE_S, every_s: float = 0.05
) -> T:
    """The first true answer of `condition`. Raises AssertionError with the last answer after the deadline."""
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"still {answer!r} after {within_s:g} s")
        time.sleep(every_s)
