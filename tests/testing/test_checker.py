"""The checker, proved on histories with known faults: a checker that finds nothing must be able to find something."""

from typing import Any

import pytest

from millstream.testing.checker import check
from millstream.testing.history import operations


class Story:
    """A history told line by line."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._calls = 0

    def begin(self, operation: str, process: str = "p", **asked: Any) -> int:
        self._calls += 1
        self.events.append(
            {"type": "invoke", "call": self._calls, "process": process, "operation": operation, **asked}
        )
        return self._calls

    def end(self, call: int, outcome: str = "ok", **answer: Any) -> None:
        self.events.append({"type": outcome, "call": call, **answer})

    def done(self, operation: str, outcome: str = "ok", answer: Any = None, **asked: Any) -> "Story":
        self.end(self.begin(operation, **asked), outcome, **(answer or {}))
        return self

    def produced(self, value: str, offset: int, **more: Any) -> "Story":
        asked = {"topic": "t", "partition": 0, "value": value, "acks": -1, "idempotent": True, **more}
        return self.done("produce", answer={"offset": offset}, **asked)

    def drained(self, *values: str, first: int = 0, **more: Any) -> "Story":
        records = [[first + place, value] for place, value in enumerate(values)]
        answer = {"records": records, "low": first, "high": first + len(values), **more}
        return self.done("drain", answer=answer, topic="t", partition=0)

    def polled(self, *records: list[Any], run: str = "r", **more: Any) -> "Story":
        asked = {"topic": "t", "partition": 0, "run": run, **more}
        return self.done("poll", answer={"records": list(records)}, **asked)

    def watermarks(self, low: int, high: int, epoch: int = 1) -> "Story":
        answer = {"low": low, "high": high, "leader_epoch": epoch}
        return self.done("watermarks", answer=answer, topic="t", partition=0)

    def kinds(self) -> set[str]:
        return check(operations(self.events)).kinds


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_history_without_faults_has_no_anomalies(story):
    story.produced("a", 0).produced("b", 1).watermarks(0, 2)
    story.polled([0, "a"], [1, "b"]).drained("a", "b")

    assert story.kinds() == set()


# Seeded: the sync is skipped, or the answer leaves before it, and the power goes


def test_an_acknowledged_record_that_is_gone_is_lost(story):
    story.produced("a", 0).produced("b", 1).drained("a")

    assert story.kinds() == {"lost", "high-regressed"}


def test_acks_1_counts_as_acknowledged(story):
    story.produced("a", 0, acks=1).drained()

    assert story.kinds() == {"lost"}


def test_a_record_of_unknown_outcome_may_be_there_or_not(story):
    asked = {"topic": "t", "partition": 0, "value": "b", "acks": -1, "idempotent": True}
    story.done("produce", "info", **asked).produced("a", 0).drained("a")
    other = Story().produced("a", 0).done("produce", "info", **asked).drained("a", "b")

    assert story.kinds() == other.kinds() == set()


def test_a_record_in_another_place_than_was_acknowledged_is_lost_there(story):
    story.produced("a", 0).produced("b", 1).drained("b", "a")

    assert {"lost", "inconsistent"} <= story.kinds()


def test_records_below_an_acknowledged_delete_are_not_lost(story):
    story.produced("a", 0).produced("b", 1)
    story.done("delete_records", topic="t", partition=0, offset=1, answer={"low": 1})
    story.drained("b", first=1)

    assert story.kinds() == set()


# Seeded: the producers' state is forgotten at a restart


def test_an_idempotent_record_stored_twice_is_a_duplicate(story):
    story.produced("a", 0).drained("a", "a")

    assert story.kinds() == {"duplicate"}


def test_a_plain_producer_may_repeat_itself(story):
    story.produced("a", 0, idempotent=False).drained("a", "a")

    assert story.kinds() == set()


def test_an_idempotent_producer_stays_in_order(story):
    asked = {"topic": "t", "partition": 0, "acks": -1, "idempotent": True}
    story.done("produce", "info", value="a", **asked).done("produce", "info", value="b", **asked)
    story.drained("b", "a")

    assert story.kinds() == {"disorderly"}


# Seeded: bytes of a refused or torn batch are served


def test_a_record_that_nobody_sent_is_unexpected(story):
    assert story.drained("ghost").kinds() == {"unexpected"}


def test_a_record_that_was_refused_is_unexpected(story):
    asked = {"topic": "t", "partition": 0, "value": "a", "acks": -1}
    story.done("produce", "fail", answer={"reason": "too large"}, **asked).drained("a")

    assert story.kinds() == {"unexpected"}


def test_a_record_in_another_partition_than_it_was_sent_to_is_unexpected(story):
    asked = {"topic": "t", "partition": 1, "value": "a", "acks": -1}
    story.done("produce", "info", **asked).drained("a")

    assert story.kinds() == {"unexpected"}


# Seeded: an offset is given twice after a restart


def test_one_offset_with_two_values_is_inconsistent(story):
    asked = {"topic": "t", "partition": 0, "acks": 1, "idempotent": False}
    story.done("produce", "info", value="a", **asked).done("produce", "info", value="b", **asked)
    story.polled([0, "a"]).drained("b")

    assert "inconsistent" in story.kinds()


# Seeded: a reader is served from the wrong place


def test_a_reader_that_goes_back_by_itself_is_non_monotonic(story):
    story.produced("a", 0).produced("b", 1).drained("a", "b")
    story.polled([0, "a"], [1, "b"]).polled([0, "a"])

    assert story.kinds() == {"non-monotonic"}


def test_a_reader_that_starts_a_new_run_may_go_back(story):
    story.produced("a", 0).produced("b", 1).drained("a", "b")
    story.polled([0, "a"], [1, "b"]).polled([0, "a"], run="after the rebalance")

    assert story.kinds() == set()


def test_a_reader_that_passes_over_a_record_has_skipped(story):
    story.produced("a", 0).produced("b", 1).produced("c", 2).drained("a", "b", "c")
    story.polled([0, "a"], [2, "c"])

    assert story.kinds() == {"skipped"}


def test_a_group_that_read_everything_has_seen_every_record(story):
    story.produced("a", 0).produced("b", 1).drained("a", "b").polled([0, "a"], group="g")
    story.done("group_done", group="g", topics=["t"])

    assert story.kinds() == {"unseen"}


# Seeded: state that goes backwards


def test_a_high_watermark_that_falls_has_regressed(story):
    assert story.watermarks(0, 5).watermarks(0, 4).kinds() == {"high-regressed"}


def test_a_high_watermark_below_what_acks_all_acknowledged_has_regressed(story):
    assert story.produced("a", 9).watermarks(0, 9).kinds() == {"high-regressed"}


def test_overlapping_looks_at_a_watermark_prove_nothing(story):
    slow = story.begin("watermarks", topic="t", partition=0)
    story.watermarks(0, 5)
    story.end(slow, low=0, high=4, leader_epoch=1)

    assert story.kinds() == set()


def test_a_leader_epoch_that_falls_has_regressed(story):
    assert story.watermarks(0, 1, epoch=3).watermarks(0, 1, epoch=2).kinds() == {"leader_epoch-regressed"}


def test_a_delete_records_that_is_forgotten_is_a_regressed_low_watermark(story):
    story.done("delete_records", topic="t", partition=0, offset=4, answer={"low": 4}).watermarks(0, 9)

    assert story.kinds() == {"low-regressed"}


def test_a_producer_id_is_given_once(story):
    story.done("producer_id", answer={"id": 7}).done("producer_id", answer={"id": 7})

    assert story.kinds() == {"producer-id-repeated"}


# Seeded: the internal topics lose their tail


def commit(story: Story, offset: int, outcome: str = "ok") -> Story:
    return story.done("commit", outcome, group="g", topic="t", partition=0, offset=offset)


def committed(story: Story, offset: int) -> Story:
    return story.done("committed", group="g", topic="t", partition=0, answer={"offset": offset})


def test_a_committed_offset_that_falls_back_is_lost(story):
    assert committed(commit(commit(story, 3), 8), 3).kinds() == {"commit-lost"}


def test_a_commit_of_unknown_outcome_may_have_happened(story):
    assert committed(commit(commit(story, 3), 8, "info"), 8).kinds() == set()


def test_a_commit_that_nobody_asked_for_is_invented(story):
    assert committed(commit(story, 3), 9).kinds() == {"commit-invented"}


def created(story: Story, outcome: str = "ok") -> Story:
    return story.done("create_topic", outcome, topic="n", config={"retention.ms": "5"})


def described(story: Story, config: dict[str, str] | None) -> Story:
    answer = {"exists": config is not None, "config": config or {}}
    return story.done("describe_topic", topic="n", answer=answer)


def test_a_created_topic_that_is_gone_is_lost(story):
    assert described(created(story), None).kinds() == {"topic-lost"}


def test_a_created_topic_of_unknown_outcome_may_be_gone(story):
    assert described(created(story, "info"), None).kinds() == set()


def test_a_deleted_topic_that_is_back_is_found(story):
    created(story).done("delete_topic", topic="n")

    assert described(story, {"retention.ms": "5"}).kinds() == {"topic-back"}


def test_a_deletion_of_unknown_outcome_allows_both(story):
    created(story).done("delete_topic", "info", topic="n")

    assert described(described(story, {"retention.ms": "5"}), None).kinds() == set()


def test_a_changed_config_that_is_back_to_its_old_value_is_lost(story):
    created(story).done("configure", topic="n", config={"retention.ms": "9"})

    assert described(story, {"retention.ms": "5"}).kinds() == {"config-lost"}


def test_a_config_given_at_creation_outlives_other_changes(story):
    created(story).done("configure", topic="n", config={"segment.bytes": "2048"})

    assert described(story, {"segment.bytes": "2048"}).kinds() == {"config-lost"}


# Seeded: compaction drops the wrong record, or its swap is half done


def put(story: Story, value: str, outcome: str = "ok") -> Story:
    return story.done("put", outcome, topic="n", key="k", value=value)


def table(story: Story, value: str) -> Story:
    return story.done("table", topic="n", answer={"values": {"k": value}})


def test_a_key_that_fell_back_to_an_older_value_is_stale(story):
    assert table(put(put(story, "1"), "2"), "1").kinds() == {"stale"}


def test_a_key_that_is_gone_is_stale(story):
    put(story, "1").done("table", topic="n", answer={"values": {}})

    assert story.kinds() == {"stale"}


def test_a_put_of_unknown_outcome_may_have_happened(story):
    put(put(story, "1"), "2", "info")

    assert table(table(story, "1"), "2").kinds() == set()


def test_the_description_names_what_contradicts(story):
    story.produced("a", 0).drained()

    text = check(operations(story.events)).describe()

    assert "lost: a (acks=-1) was acknowledged at t-0 offset 0, where nothing was found in the end" in text
