"""The heap of deadlines."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.coordination.timers import Timer, TimerKind, Timers


def timer():
    return Timer(TimerKind.SESSION)


def test_a_timer_fires_once_at_its_deadline():
    timers, one = Timers(), timer()
    timers.start(one, 10)

    assert timers.pop_due(9) is None
    assert timers.pop_due(10) is one
    assert timers.pop_due(11) is None


def test_a_deadline_moved_later_is_kept():
    timers, one = Timers(), timer()
    timers.start(one, 10)
    timers.start(one, 20)

    assert timers.pop_due(19) is None
    assert timers.pop_due(20) is one


def test_a_deadline_moved_earlier_is_kept():
    timers, one = Timers(), timer()
    timers.start(one, 20)
    timers.start(one, 10)

    assert timers.pop_due(10) is one
    assert timers.pop_due(20) is None


def test_a_stopped_timer_does_not_fire():
    timers, one = Timers(), timer()
    timers.start(one, 10)
    timers.stop(one)

    assert timers.pop_due(10) is None


def test_a_stopped_timer_can_be_started_again():
    timers, one = Timers(), timer()
    timers.start(one, 10)
    timers.stop(one)
    timers.start(one, 10)

    assert timers.pop_due(10) is one
    assert timers.pop_due(10) is None


def test_timers_fire_in_the_order_of_their_deadlines():
    timers, late, early = Timers(), timer(), timer()
    timers.start(late, 20)
    timers.start(early, 10)

    assert timers.pop_due(30) is early
    assert timers.pop_due(30) is late


def test_nothing_fires_before_the_next_deadline():
    timers, one = Timers(), timer()
    assert timers.next_deadline_ms() is None

    timers.start(one, 10)

    assert timers.next_deadline_ms() == 10


def start_and_stop(timers, times):
    for number in range(times):
        one = timer()
        timers.start(one, number)
        timers.stop(one)


def move_earlier(timers, one, times):
    for number in range(times):
        timers.start(one, times - number)


def test_timers_that_were_stopped_do_not_pile_up():
    timers = Timers()

    start_and_stop(timers, 10_000)

    assert len(timers) <= 64


def test_deadlines_that_move_do_not_pile_up():
    timers, one = Timers(), timer()

    move_earlier(timers, one, 10_000)

    assert len(timers) <= 66


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 4), st.integers(0, 50)),
        st.tuples(st.just("stop"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("tick"), st.just(0), st.integers(0, 10)),
    ),
    max_size=60,
)


@given(STEPS)
def test_timers_do_what_a_plain_dict_of_deadlines_would(steps):
    timers, model, now = Timers(), {}, 0
    every = [timer() for _ in range(5)]
    for action, index, amount in steps:
        if action == "start":
            timers.start(every[index], now + amount)
            model[index] = now + amount
        elif action == "stop":
            timers.stop(every[index])
            model.pop(index, None)
        else:
            now += amount
            fired = []
            while (due := timers.pop_due(now)) is not None:
                fired.append(every.index(due))
            expected = [index for index, deadline in model.items() if deadline <= now]
            assert sorted(fired) == sorted(expected)
            deadlines = [model.pop(index) for index in fired]
            assert deadlines == sorted(deadlines)
