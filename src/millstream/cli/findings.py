"""One line of `millstream doctor`: what was looked at, how it is, what to do.

Invariants: `advice` is there whenever the state is not ok.
"""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    check: str
    state: State
    detail: str
    advice: str = ""


def ok(check: str, detail: str) -> Finding:
    return Finding(check=check, state="ok", detail=detail)


def warn(check: str, detail: str, advice: str) -> Finding:
    return Finding(check=check, state="warn", detail=detail, advice=advice)


def fail(check: str, detail: str, advice: str) -> Finding:
    return Finding(check=check, state="fail", detail=detail, advice=advice)
