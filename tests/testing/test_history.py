"""The history: what was begun, how it ended, and in which order."""

import json

import pytest

from millstream.testing.history import History, operations, read_history


@pytest.fixture
def history(tmp_path):
    made = History(tmp_path / "history.jsonl")
    yield made
    made.close()


def test_a_call_that_was_answered_carries_question_and_answer(history):
    history.invoke("writer", "produce", topic="t", value="a").ok(offset=7)
    history.close()

    (found,) = read_history(history.path)

    assert (found.name, found.process, found.outcome) == ("produce", "writer", "ok")
    assert found.fields == {"topic": "t", "value": "a", "offset": 7}


def test_a_call_that_never_ended_is_of_unknown_outcome(history):
    history.invoke("writer", "produce", value="a")
    history.close()

    (found,) = read_history(history.path)

    assert found.outcome == "info"


def test_calls_of_several_clients_may_overlap(history):
    first = history.invoke("one", "produce", value="a")
    second = history.invoke("two", "produce", value="b")
    second.ok(offset=0)
    first.info("timed out")
    history.close()

    one, two = read_history(history.path)

    assert one.began < two.began < two.ended < one.ended
    assert (one.outcome, two.outcome) == ("info", "ok")


def test_each_line_is_one_json_object(history):
    history.note("nemesis", "kill", pid=12)
    history.close()

    kinds = [json.loads(line)["type"] for line in history.path.read_text().splitlines()]

    assert kinds == ["invoke", "ok"]


def test_an_end_without_a_beginning_is_refused():
    with pytest.raises(ValueError, match="call 4"):
        operations([{"type": "ok", "call": 4}])


def test_a_second_end_is_refused():
    begun = {"type": "invoke", "call": 1, "process": "p", "operation": "produce"}
    with pytest.raises(ValueError, match="call 1"):
        operations([begun, {"type": "ok", "call": 1}, {"type": "info", "call": 1}])
