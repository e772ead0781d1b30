"""What was sent, acknowledged and received: the books that the report is checked against.

Why: "nothing was lost" is a claim about two lists. One is written by the producers, the other by the readers, and
neither sees the other's.
Invariants: a number is acknowledged at most once; lists only grow. Threads write, the display reads: appending to
a list and adding to a set are atomic in Python, and counts that are a moment old do no harm.
"""

from dataclasses import dataclass, field

from events import TOPICS, Event


@dataclass(slots=True)
class Sent:
    """The producers' side."""

    offered: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOPICS, 0))
    acknowledged: dict[str, list[Event]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    refused: list[tuple[Event, str]] = field(default_factory=list)

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def numbers(self, topic: str) -> set[int]:
        return {event.number for event in self.acknowledged[topic]}


@dataclass(slots=True)
class Received:
    """One reader's side, or one group's."""

    topics: tuple[str, ...]
    unique: dict[str, set[int]] = field(init=False)
    repeated: dict[str, int] = field(init=False)
    by_member: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.unique = {topic: set() for topic in self.topics}
        self.repeated = dict.fromkeys(self.topics, 0)

    def add(self, member: str, topic: str, number: int) -> None:
        seen = self.unique[topic]
        if number in seen:
            self.repeated[topic] += 1
        seen.add(number)
        self.by_member[member] = self.by_member.get(member, 0) + 1

    @property
    def unique_count(self) -> int:
        return sum(map(len, self.unique.values()))

    @property
    def repeated_count(self) -> int:
        return sum(self.repeated.values())

    def missing(self, sent: Sent) -> int:
        """How many acknowledged events this reader has not seen."""
        return sum(len(sent.numbers(topic) - self.unique[topic]) for topic in self.topics)

    def behind(self, sent: Sent) -> int:
        """The same as a quick estimate, while everything moves."""
        acknowledged = sum(len(sent.acknowledged[topic]) for topic in self.topics)
        return max(0, acknowledged - self.unique_count)
