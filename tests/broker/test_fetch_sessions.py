import random

from millstream.broker.fetch_sessions import FetchPosition, FetchSessions


def sessions(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, random.Random(7))


def test_the_session_used_longest_ago_goes_first():
    kept = sessions(slots=2)
    first, second = kept.open(), kept.open()
    kept.find(first.id)

    third = kept.open()

    assert kept.find(first.id) is first
    assert kept.find(second.id) is None
    assert kept.find(third.id) is third


def test_without_slots_no_session_is_kept():
    assert sessions(slots=0).open() is None


def test_an_update_changes_adds_and_forgets_partitions():
    session = sessions().open()
    session.update([(("a", 0), FetchPosition(1, 100)), (("a", 1), FetchPosition(2, 100))], [])

    session.update([(("a", 1), FetchPosition(9, 50)), (("b", 0), FetchPosition(0, 10))], [("a", 0)])

    assert {key: position.offset for key, position in session.positions.items()} == {("a", 1): 9, ("b", 0): 0}


def test_a_partition_that_got_data_is_asked_last_next_time():
    session = sessions().open()
    session.update([(("a", n), FetchPosition(0, 1)) for n in range(3)], [])

    session.served(("a", 0))

    assert list(session.positions) == [("a", 1), ("a", 2), ("a", 0)]


def test_epochs_wrap_to_one():
    session = sessions().open()
    session.epoch = 2**31 - 1

    session.advance()

    assert session.epoch == 1
