"""What clients asked of a node and what they heard, one JSON object a line.

Why: after a crash test only what was promised counts, and a promise is an answer that a client really got. The
history is written while the clients run, so it survives them too, and can be checked again later.

    {"type": "invoke", "call": 7, "process": "writer-1", "operation": "produce", "value": "w1:42", …}
    {"type": "ok", "call": 7, "offset": 1041}

Types: `invoke` begins a call; `ok` says that it happened; `fail` that it certainly did not; `info` that nobody
knows, which is what every timeout and every broken connection means. A call without an end is `info` too.
Invariants: the order of lines is an order of events that really held: what ends on a line before another begins
had happened by then. Values written are unique, so that a record read can be traced to the call that sent it.
"""

import json
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

Outcome = Literal["ok", "fail", "info"]

_NEVER = 2**63


@dataclass(slots=True)
class Operation:
    """One call from its beginning to its end. `began` and `ended` are line numbers."""

    name: str
    process: str
    began: int
    ended: int = _NEVER
    outcome: Outcome = "info"
    fields: dict[str, Any] = field(default_factory=dict)
    """What was asked, and over it what was answered."""

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"


class Invocation:
    """A call that has begun. End it once, or leave it: then nobody knows what became of it."""

    __slots__ = ("_call", "_history")

    def __init__(self, history: "History", call: int) -> None:
        self._history = history
        self._call = call

    def ok(self, **answer: Any) -> None:
        self._history.write({"type": "ok", "call": self._call, **answer})

    def fail(self, reason: str) -> None:
        self._history.write({"type": "fail", "call": self._call, "reason": reason})

    def info(self, reason: str) -> None:
        self._history.write({"type": "info", "call": self._call, "reason": reason})


class History:
    """Takes events from any thread; writes each at once to its file."""

    def __init__(self, path: Path, *, append: bool = False) -> None:
        """`append` goes on with the file of a history that was closed."""
        self.path = path
        self._lock = threading.Lock()
        self._calls = max((event["call"] for event in _events(path)), default=0) if append else 0
        self._file: TextIO = path.open("a" if append else "w", encoding="utf-8", buffering=1 << 16)

    def invoke(self, process: str, operation: str, **asked: Any) -> Invocation:
        with self._lock:
            self._calls += 1
            call = self._calls
            self._write({"type": "invoke", "call": call, "process": process, "operation": operation, **asked})
        return Invocation(self, call)

    def note(self, process: str, operation: str, **facts: Any) -> None:
        """Something that was done to the node rather than asked of it, such as a kill."""
        self.invoke(process, operation, **facts).ok()

    def write(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._write(event)

    def _write(self, event: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(event, separators=(",", ":")) + "\n")

    def copy_to(self, path: Path) -> None:
        """Everything up to now: what had been promised at this moment."""
        with self._lock:
            self._file.flush()
            shutil.copyfile(self.path, path)

    def close(self) -> None:
        with self._lock:
            self._file.close()


def read_history(path: Path) -> list[Operation]:
    """The operations of a history file, in the order they began."""
    return operations(_events(path))


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def operations(events: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """Pair beginnings with ends. Raises ValueError for an end without a beginning, or a second end."""
    begun: dict[int, Operation] = {}
    for number, event in enumerate(events):
        fields = dict(event)
        kind, call = fields.pop("type"), fields.pop("call")
        if kind == "invoke":
            name, process = fields.pop("operation"), fields.pop("process")
            begun[call] = Operation(name, process, number, fields=fields)
            continue
        operation = begun.get(call)
        if operation is None or operation.ended != _NEVER:
            raise ValueError(f"line {number + 1}: call {call} ends, but it is not under way")
        operation.ended = number
        operation.outcome = kind
        operation.fields.update(fields)
    return list(begun.values())


def named(operations: Iterable[Operation], name: str) -> Iterator[Operation]:
    return (operation for operation in operations if operation.name == name)
