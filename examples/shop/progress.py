"""What is going on, while it goes on.

Why: a person watches a table that moves; a log file or a pipe gets a plain line a second.
Invariants: showing never waits for the node, and never fails the run. Whoever waits here waits for a condition; it
gives up only when nothing at all has moved for STALL_SECONDS_MAX.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from consumers import GroupMember
from events import TOPICS
from ledger import Received, Sent
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

STALL_SECONDS_MAX = 120.0
_LOOK_SECONDS = 0.1
_LINE_SECONDS = 1.0
_RATE_SECONDS = 2.0


class NothingMoves(Exception):
    """A condition was not met and nothing has changed for a long time."""


class Progress:
    def __init__(
        self,
        console: Console,
        sent: Sent,
        groups: Mapping[str, Received],
        members: Sequence[GroupMember],
    ) -> None:
        self._console = console
        self._sent = sent
        self._groups = groups
        self._members = members
        self._began = time.monotonic()
        self._line_due = 0.0
        self._node = ""
        self._history: deque[tuple[float, int, int]] = deque()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
            self._live.stop()

    def say(self, text: str) -> None:
        """An event worth a line of its own."""
        self._console.print(
            f"{time.monotonic() - self._began:5.1f} s  {text}", highlight=False, soft_wrap=True
        )

    def node(self, state: str) -> None:
        self._node = state
        self._show()

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when `condition` holds. Raises NothingMoves."""
        moved_at, seen = time.monotonic(), -1
        while not condition():
            self._show()
            now = time.monotonic()
            counted = self._acknowledged() + self._received()
            if counted != seen:
                moved_at, seen = now, counted
            if now - moved_at > STALL_SECONDS_MAX:
                raise NothingMoves(f"{what}: nothing has moved for {STALL_SECONDS_MAX:g} s")
            time.sleep(_LOOK_SECONDS)
        self._show()

    def _acknowledged(self) -> int:
        return self._sent.acknowledged_count

    def _received(self) -> int:
        return sum(received.unique_count + received.repeated_count for received in self._groups.values())

    def _show(self) -> None:
        now = time.monotonic()
        self._history.append((now, self._acknowledged(), self._received()))
        while now - self._history[0][0] > _RATE_SECONDS:
            self._history.popleft()
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        elif now >= self._line_due:
            self._line_due = now + _LINE_SECONDS
            self.say(self._line())

    def _rates(self) -> tuple[float, float]:
        if len(self._history) < 2:
            return 0.0, 0.0
        (then, acknowledged, received), (now, acknowledged_now, received_now) = (
            self._history[0],
            self._history[-1],
        )
        seconds = max(now - then, 0.001)
        return (acknowledged_now - acknowledged) / seconds, (received_now - received) / seconds

    def _line(self) -> str:
        way_in, way_out = self._rates()
        groups = ", ".join(
            f"{name} {received.unique_count:,} ({received.behind(self._sent):,} behind)"
            for name, received in self._groups.items()
        )
        return (
            f"node {self._node}: {self._acknowledged():,} acknowledged ({way_in:,.0f}/s), "
            f"{groups} ({way_out:,.0f}/s)"
        )

    def _picture(self) -> Group:
        way_in, way_out = self._rates()
        head = Text(
            f"node {self._node} · {way_in:,.0f} events/s in · {way_out:,.0f} events/s out · "
            f"{time.monotonic() - self._began:.0f} s"
        )
        return Group(head, self._topics(), self._readers())

    def _topics(self) -> Table:
        table = Table("topic", box=None, header_style="bold", padding=(0, 2, 0, 0))
        for title in ("offered", "acknowledged", "waiting"):
            table.add_column(title, justify="right")
        for topic in TOPICS:
            offered, acknowledged = self._sent.offered[topic], len(self._sent.acknowledged[topic])
            table.add_row(topic, f"{offered:,}", f"{acknowledged:,}", f"{max(0, offered - acknowledged):,}")
        return table

    def _readers(self) -> Table:
        table = Table("group", "member", box=None, header_style="bold", padding=(0, 2, 0, 0))
        for title in ("received", "behind"):
            table.add_column(title, justify="right")
        table.add_column("partitions")
        for name, received in self._groups.items():
            shown, behind = name, f"{received.behind(self._sent):,}"
            for member in self._members:
                if member.group == name:
                    count = received.by_member[member.member]
                    table.add_row(shown, member.member, f"{count:,}", behind, _shown(member.partitions))
                    shown = behind = ""
        return table


def _shown(partitions: Sequence[str]) -> str:
    if not partitions:
        return "none yet"
    if len(partitions) == sum(TOPICS.values()):
        return "all"
    return " ".join(partition.removeprefix("shop.") for partition in partitions)
