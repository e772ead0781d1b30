"""The verdict: the log and the groups against what was acknowledged.

Why: a demonstration that can't fail shows nothing. This one fails if an acknowledged event is missing anywhere, if
the log holds one twice, or if a customer's events have changed their order.
Invariants: what was acknowledged is known from the producers alone, what is in the log from a reader that began at
offset 0 after everything else had ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from events import TOPICS
from ledger import Received, Sent
from rich.console import Console
from rich.table import Table


@dataclass(slots=True)
class Replayed:
    """What the log holds, as a new reader finds it."""

    numbers: dict[str, list[int]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    by_key: dict[tuple[str, bytes], list[int]] = field(default_factory=dict)

    def take(self, topic: str, partition: int, key: bytes, number: int) -> None:
        self.numbers[topic].append(number)
        self.by_key.setdefault((topic, key), []).append(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicVerdict:
    topic: str
    offered: int
    acknowledged: int
    stored: int
    missing: int
    duplicates: int
    unasked: int
    """Stored, though never acknowledged. After a crash that may be; here every event was acknowledged."""
    out_of_order: int
    """Keys whose events are not in the order in which they were sent."""

    @property
    def is_good(self) -> bool:
        return not (self.missing or self.duplicates or self.unasked or self.out_of_order)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    group: str
    shares: tuple[int, ...]
    """Events that each member took."""
    unique: int
    repeated: int
    missing: int

    @property
    def is_good(self) -> bool:
        return self.missing == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    topics: tuple[TopicVerdict, ...]
    groups: tuple[GroupVerdict, ...]
    refused: int

    @property
    def is_good(self) -> bool:
        topics_are_good = all(topic.is_good for topic in self.topics)
        return topics_are_good and all(group.is_good for group in self.groups) and not self.refused


def judge(sent: Sent, groups: Mapping[str, Received], replayed: Replayed) -> Report:
    return Report(
        topics=tuple(_judge_topic(topic, sent, replayed) for topic in TOPICS),
        groups=tuple(
            GroupVerdict(
                group=name,
                shares=tuple(received.by_member.values()),
                unique=received.unique_count,
                repeated=received.repeated_count,
                missing=received.missing(sent),
            )
            for name, received in groups.items()
        ),
        refused=len(sent.refused),
    )


def _judge_topic(topic: str, sent: Sent, replayed: Replayed) -> TopicVerdict:
    acknowledged = sent.numbers(topic)
    stored = replayed.numbers[topic]
    # Events are numbered in the order they are sent, and one producer sends all of a key's.
    out_of_order = sum(
        numbers != sorted(numbers) for (of, _), numbers in replayed.by_key.items() if of == topic
    )
    return TopicVerdict(
        topic=topic,
        offered=sent.offered[topic],
        acknowledged=len(acknowledged),
        stored=len(stored),
        missing=len(acknowledged - set(stored)),
        duplicates=len(stored) - len(set(stored)),
        unasked=len(set(stored) - acknowledged),
        out_of_order=out_of_order,
    )


def show(report: Report, console: Console) -> None:
    console.print()
    console.print(_topic_table(report))
    console.print()
    console.print(_group_table(report))
    console.print()
    if any(group.repeated for group in report.groups):
        console.print(
            "Redelivered: read before the crash and not yet committed. A group gets those again: at least once.",
            highlight=False,
            soft_wrap=True,
        )
    console.print(sentence(report), highlight=False, soft_wrap=True)


def sentence(report: Report) -> str:
    stored = sum(topic.stored for topic in report.topics)
    if report.is_good:
        return (
            f"Nothing was lost: {stored:,} events were acknowledged, and the log holds each of them once, "
            "in the order of its key."
        )
    return (
        f"NOT GOOD: {sum(t.missing for t in report.topics):,} acknowledged events are missing in the log, "
        f"{sum(t.duplicates for t in report.topics):,} are there twice, "
        f"{sum(t.unasked for t in report.topics):,} were never acknowledged, "
        f"{sum(t.out_of_order for t in report.topics):,} keys are out of order, "
        f"{sum(g.missing for g in report.groups):,} were not seen by a group, "
        f"{report.refused:,} were refused."
    )


def _topic_table(report: Report) -> Table:
    table = _table("topic", ("sent", "acknowledged", "in the log", "missing", "duplicates"), "order by key")
    for topic in report.topics:
        counts = (topic.offered, topic.acknowledged, topic.stored, topic.missing, topic.duplicates)
        order = "broken" if topic.out_of_order else "kept"
        table.add_row(topic.topic, *(f"{count:,}" for count in counts), order)
    return table


def _group_table(report: Report) -> Table:
    table = _table("group", ("got", "redelivered", "missing"), "shares of its members")
    for group in report.groups:
        shares = " + ".join(f"{share:,}" for share in group.shares)
        table.add_row(group.group, f"{group.unique:,}", f"{group.repeated:,}", f"{group.missing:,}", shares)
    return table


def _table(first: str, numbers: tuple[str, ...], last: str) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(last, no_wrap=True)
    return table
