"""Whether a node kept its promises: a history in, anomalies out.

Why: "nothing lost" must be a calculation over what clients heard, not an impression.
What it knows of each operation's fields (all others are ignored):

    produce        topic, partition, value, acks, idempotent → offset
    poll           topic, partition, run → records [[offset, value], …]      one run is one stretch of reading on
    drain          topic, partition → records, low, high                     everything that is there in the end
    watermarks     topic, partition → low, high, leader_epoch
    delete_records topic, partition, offset → low
    commit         group, topic, partition, offset        committed  group, topic, partition → offset
    create_topic, configure  topic, config                delete_topic  topic
    describe_topic topic → exists, config                 producer_id → id
    put            topic, key, value                      table      topic → values {key: value}
    group_done     group, topics                          the group says that it has read all of them

Invariants: a call whose outcome is unknown (`info`) allows both worlds and proves neither; every anomaly names the
operations that contradict each other. The checker is itself checked, on histories with known faults
(tests/testing/test_checker.py): only then do its zeros count.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from millstream.testing.history import Operation, named

Place = tuple[str, int]
"""Topic and partition."""

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    anomalies: tuple[Anomaly, ...]
    counts: Counter[str]
    """Operations by `name/outcome`."""

    @property
    def is_valid(self) -> bool:
        return not self.anomalies

    @property
    def kinds(self) -> set[str]:
        return {anomaly.kind for anomaly in self.anomalies}

    def describe(self) -> str:
        lines = [f"{count:>8} {name}" for name, count in sorted(self.counts.items())]
        lines += [str(anomaly) for anomaly in self.anomalies[:SHOWN_MAX]]
        lines.append(f"{len(self.anomalies)} anomalies")
        return "\n".join(lines)


def check(operations: Sequence[Operation]) -> Verdict:
    """Every contradiction between what was acknowledged and what was found."""
    evidence = _Evidence(operations)
    anomalies = [anomaly for check_one in _CHECKS for anomaly in check_one(evidence)]
    counts = Counter(f"{operation.name}/{operation.outcome}" for operation in operations)
    return Verdict(anomalies=tuple(anomalies), counts=counts)


@dataclass(slots=True)
class _Rising:
    """A number that may only rise: what was known of it, in the order it became known."""

    lines: list[int] = field(default_factory=list)
    floors: list[int] = field(default_factory=list)

    def add(self, line: int, value: int) -> None:
        self.lines.append(line)
        self.floors.append(max(value, self.floors[-1]) if self.floors else value)

    def before(self, line: int) -> int:
        """The largest value that was known before `line`."""
        row = bisect_left(self.lines, line)
        return self.floors[row - 1] if row else -1


class _Evidence:
    """The operations, sorted by what they can prove."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.produces = list(named(operations, "produce"))
        self.polls = [poll for poll in named(operations, "poll") if poll.is_ok]
        self.drains = {_place(drain): drain for drain in named(operations, "drain") if drain.is_ok}
        self.sent = {produce["value"]: produce for produce in self.produces}
        self.found: dict[Place, dict[int, str]] = {
            place: dict(drain["records"]) for place, drain in self.drains.items()
        }

    def lows(self, place: Place) -> int:
        """Nothing at or above it may be missing, even if every deletion without an answer happened."""
        asked = [
            operation["offset"]
            for operation in named(self.operations, "delete_records")
            if _place(operation) == place and operation.outcome != "fail"
        ]
        return max(asked, default=0)

    def deleted_topics(self) -> set[str]:
        return {
            operation["topic"]
            for operation in named(self.operations, "delete_topic")
            if operation.outcome != "fail"
        }


def _place(operation: Operation) -> Place:
    return operation["topic"], operation["partition"]


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _lost(evidence: _Evidence) -> Iterator[Anomaly]:
    """Acknowledged, and not there in the end."""
    deleted = evidence.deleted_topics()
    lows = {place: evidence.lows(place) for place in evidence.found}
    for produce in evidence.produces:
        place = _place(produce)
        if not produce.is_ok or place not in evidence.found or place[0] in deleted:
            continue
        offset = produce["offset"]
        if offset >= lows[place] and evidence.found[place].get(offset) != produce["value"]:
            there = evidence.found[place].get(offset, "nothing")
            yield Anomaly(
                "lost",
                f"{produce['value']} (acks={produce.get('acks')}) was acknowledged at {_name(place)} offset "
                f"{offset}, where {there} was found in the end",
            )


def _duplicated(evidence: _Evidence) -> Iterator[Anomaly]:
    for place, records in evidence.found.items():
        seen: dict[str, int] = {}
        for offset, value in records.items():
            produce = evidence.sent.get(value)
            if value in seen and produce is not None and produce.get("idempotent"):
                yield Anomaly("duplicate", f"{value} is at {_name(place)} offsets {seen[value]} and {offset}")
            seen[value] = offset


def _unexpected(evidence: _Evidence) -> Iterator[Anomaly]:
    """Read, though nobody sent it, or its sender was told that it was refused."""
    for place, records in evidence.found.items():
        for offset, value in records.items():
            produce = evidence.sent.get(value)
            if produce is None:
                yield Anomaly("unexpected", f"{value} at {_name(place)} offset {offset} was never sent")
            elif produce.outcome == "fail":
                yield Anomaly("unexpected", f"{value} at {_name(place)} offset {offset} was refused")
            elif _place(produce) != place:
                yield Anomaly("unexpected", f"{value} at {_name(place)} was sent to {_name(_place(produce))}")


def _inconsistent(evidence: _Evidence) -> Iterator[Anomaly]:
    """One offset, two values."""
    values: dict[tuple[Place, int], str] = {}
    deleted = evidence.deleted_topics()
    for place, offset, value in _sightings(evidence):
        if place[0] in deleted:
            continue
        first = values.setdefault((place, offset), value)
        if first != value:
            yield Anomaly("inconsistent", f"{_name(place)} offset {offset} was {first} and {value}")


def _sightings(evidence: _Evidence) -> Iterator[tuple[Place, int, str]]:
    for produce in evidence.produces:
        if produce.is_ok:
            yield _place(produce), produce["offset"], produce["value"]
    for reading in (*evidence.polls, *evidence.drains.values()):
        for offset, value in reading["records"]:
            yield _place(reading), offset, value


def _disorderly(evidence: _Evidence) -> Iterator[Anomaly]:
    """An idempotent producer's records out of the order it sent them in."""
    sent: dict[tuple[str, Place], list[Operation]] = defaultdict(list)
    for produce in evidence.produces:
        if produce.get("idempotent"):
            sent[produce.process, _place(produce)].append(produce)
    for (process, place), produces in sent.items():
        offsets = {value: offset for offset, value in evidence.found.get(place, {}).items()}
        placed = [(offsets[p["value"]], p["value"]) for p in produces if p["value"] in offsets]
        for (low, first), (high, second) in pairwise(placed):
            if low >= high:
                yield Anomaly(
                    "disorderly", f"{process} sent {first} before {second}; they are at {low} and {high}"
                )


def _non_monotonic(evidence: _Evidence) -> Iterator[Anomaly]:
    """A reader that was not moved saw an offset twice, or passed over one that was there."""
    runs: dict[tuple[Any, Place], list[Operation]] = defaultdict(list)
    for poll in evidence.polls:
        runs[poll.get("run", poll.process), _place(poll)].append(poll)
    for (run, place), polls in runs.items():
        offsets = [offset for poll in polls for offset, _ in poll["records"]]
        there = evidence.found.get(place, {})
        for first, second in pairwise(offsets):
            if second <= first:
                yield Anomaly("non-monotonic", f"{run} read {_name(place)} {first}, then {second}")
            elif any(between in there for between in range(first + 1, second)):
                yield Anomaly("skipped", f"{run} read {_name(place)} {first}, then {second}, past records")


def _regressed(evidence: _Evidence) -> Iterator[Anomaly]:
    """A high watermark, a log start or a leader epoch that went backwards, restarts or not."""
    rising: dict[tuple[str, Place], _Rising] = defaultdict(_Rising)
    deleted = evidence.deleted_topics()
    for operation in sorted(evidence.operations, key=lambda each: each.ended):
        if not operation.is_ok or operation.get("topic") in deleted:
            continue
        for kind, value in _known_from(operation):
            rising[kind, _place(operation)].add(operation.ended, value)
    for operation in (*named(evidence.operations, "watermarks"), *evidence.drains.values()):
        if not operation.is_ok or operation["topic"] in deleted:
            continue
        place = _place(operation)
        for kind in ("high", "low", "leader_epoch"):
            value = operation.get(kind)
            floor = rising[kind, place].before(operation.began)
            if value is not None and value < floor:
                yield Anomaly(f"{kind}-regressed", f"{_name(place)} {kind} is {value}, it was {floor} before")


def _known_from(operation: Operation) -> Iterator[tuple[str, int]]:
    if operation.name == "produce" and operation.get("acks") == -1:
        yield "high", operation["offset"] + 1
    elif operation.name == "poll" and operation["records"]:
        yield "high", operation["records"][-1][0] + 1
    elif operation.name == "delete_records":
        yield "low", operation["low"]
    elif operation.name in ("watermarks", "drain"):
        for kind in ("high", "low", "leader_epoch"):
            if operation.get(kind) is not None:
                yield kind, operation[kind]


def _commits_lost(evidence: _Evidence) -> Iterator[Anomaly]:
    """A committed offset that fell behind; commits of one group and partition are taken to rise."""
    rising: dict[tuple[str, Place], _Rising] = defaultdict(_Rising)
    asked: dict[tuple[str, Place], int] = defaultdict(lambda: -1)
    for commit in sorted(named(evidence.operations, "commit"), key=lambda each: each.ended):
        key = (commit["group"], _place(commit))
        asked[key] = max(asked[key], commit["offset"])
        if commit.is_ok:
            rising[key].add(commit.ended, commit["offset"])
    for look in named(evidence.operations, "committed"):
        key = (look["group"], _place(look))
        if not look.is_ok:
            continue
        floor = rising[key].before(look.began)
        if look["offset"] < floor:
            yield Anomaly(
                "commit-lost", f"{key[0]} {_name(key[1])} is at {look['offset']}, {floor} was committed"
            )
        elif look["offset"] > asked[key]:
            yield Anomaly(
                "commit-invented", f"{key[0]} {_name(key[1])} is at {look['offset']}, never committed"
            )


def _topics_wrong(evidence: _Evidence) -> Iterator[Anomaly]:
    changes: dict[str, list[Operation]] = defaultdict(list)
    for operation in evidence.operations:
        if operation.name in ("create_topic", "delete_topic", "configure") and operation.outcome != "fail":
            changes[operation["topic"]].append(operation)
    for look in named(evidence.operations, "describe_topic"):
        if look.is_ok:
            history = [change for change in changes[look["topic"]] if change.began < look.ended]
            yield from _topic_wrong(look, history)


def _topic_wrong(look: Operation, changes: list[Operation]) -> Iterator[Anomaly]:
    """Compare with the last change that was acknowledged, and whatever may have happened behind it."""
    settled = [change for change in changes if change.is_ok and change.ended < look.began]
    last = settled[-1] if settled else None
    open_ = [change for change in changes if last is None or change.began > last.began]
    possible = {change.name for change in (*([last] if last else []), *open_)}
    name = look["topic"]
    if look["exists"] and not possible - {"delete_topic"}:
        yield Anomaly("topic-back", f"topic {name} is there, though it was deleted or never made")
    elif not look["exists"] and last is not None and "delete_topic" not in possible:
        yield Anomaly("topic-lost", f"topic {name} is gone, though {last.name} was acknowledged")
    elif look["exists"] and not open_:
        for key, value in _settled_config(settled).items():
            if look["config"].get(key) != value:
                yield Anomaly("config-lost", f"topic {name} {key} is {look['config'].get(key)}, not {value}")


def _settled_config(changes: list[Operation]) -> dict[str, str]:
    config: dict[str, str] = {}
    for change in changes:
        config = {} if change.name == "delete_topic" else {**config, **change["config"]}
    return config


def _producer_ids_repeated(evidence: _Evidence) -> Iterator[Anomaly]:
    given = Counter(each["id"] for each in named(evidence.operations, "producer_id") if each.is_ok)
    for producer_id, count in given.items():
        if count > 1:
            yield Anomaly("producer-id-repeated", f"producer id {producer_id} was given out {count} times")


def _stale(evidence: _Evidence) -> Iterator[Anomaly]:
    """A compacted topic that doesn't hold the last value put under a key. One client puts a key at a time."""
    puts: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    for put in named(evidence.operations, "put"):
        if put.outcome != "fail":
            puts[put["topic"], put["key"]].append(put)
    for table in named(evidence.operations, "table"):
        for (topic, key), history in puts.items():
            if topic != table["topic"] or not table.is_ok:
                continue
            settled = [row for row, put in enumerate(history) if put.is_ok and put.ended < table.began]
            possible = [put["value"] for put in history[settled[-1] if settled else 0 :]]
            found = table["values"].get(key)
            if found not in possible and (settled or found is not None):
                yield Anomaly("stale", f"{topic} {key} is {found}, but {possible[0]} was acknowledged")


def _unseen(evidence: _Evidence) -> Iterator[Anomaly]:
    """There in the end, but never delivered to a group that says it has read everything."""
    for done in named(evidence.operations, "group_done"):
        seen = {
            (_place(poll), offset)
            for poll in evidence.polls
            if poll.get("group") == done["group"]
            for offset, _ in poll["records"]
        }
        for place, records in evidence.found.items():
            if place[0] not in done["topics"]:
                continue
            unread = [offset for offset in records if (place, offset) not in seen]
            if unread:
                yield Anomaly(
                    "unseen",
                    f"group {done['group']} never got {_name(place)} {unread[:5]} ({len(unread)} in all)",
                )


_CHECKS: tuple[Callable[[_Evidence], Iterator[Anomaly]], ...] = (
    _lost,
    _duplicated,
    _unexpected,
    _inconsistent,
    _disorderly,
    _non_monotonic,
    _regressed,
    _commits_lost,
    _topics_wrong,
    _producer_ids_repeated,
    _stale,
    _unseen,
)
