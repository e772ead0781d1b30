"""The demo, small, for real; and its verdict on books that were tampered with."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from events import CHANNELS, CLICKS, PAYMENTS, TOPICS, Event, number_of, shop_events
from ledger import Received, Sent
from report import Replayed, Report, judge, sentence

DEMO = Path(__file__).parents[2] / "examples" / "shop" / "demo.py"
TIMEOUT_S = 280


def test_the_demo_survives_a_kill_and_loses_nothing() -> None:
    found = subprocess.run(
        [sys.executable, str(DEMO), "--events", "4000"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert found.returncode == 0, found.stdout + found.stderr
    assert "kill -9" in found.stdout
    assert "Nothing was lost: 4,000 events were acknowledged" in found.stdout


def test_the_demo_stops_cleanly_on_ctrl_c() -> None:
    with subprocess.Popen(
        [sys.executable, str(DEMO)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "the shop opens" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()

    assert demo.returncode == 130, rest
    assert "Traceback" not in rest


def test_the_same_seed_gives_the_same_events() -> None:
    assert shop_events(seed=1, count=500) == shop_events(seed=1, count=500)
    assert shop_events(seed=1, count=500) != shop_events(seed=2, count=500)


def test_every_channel_and_every_topic_has_events() -> None:
    events = shop_events(seed=1, count=1000)

    assert set(events) == set(CHANNELS)
    assert {event.topic for of_channel in events.values() for event in of_channel} == set(TOPICS)
    assert sorted(number_of(event.value) for part in events.values() for event in part) == list(range(1000))


def test_an_order_comes_before_its_payment() -> None:
    events = [event for of_channel in shop_events(seed=1, count=1000).values() for event in of_channel]
    payments = [event for event in events if event.topic == PAYMENTS]

    assert payments
    assert all(json.loads(event.value)["order"] < event.number for event in payments)


def books(numbers: range = range(10)) -> tuple[Sent, Received, Replayed]:
    """Ten clicks of one customer: sent, seen by a group, in the log."""
    sent, received, replayed = Sent(), Received((CLICKS,)), Replayed()
    for number in numbers:
        sent.offered[CLICKS] += 1
        sent.acknowledged[CLICKS].append(Event(number, CLICKS, b"web-01", b"{}"))
        received.add("member-1", CLICKS, number)
        replayed.take(CLICKS, 0, b"web-01", number)
    return sent, received, replayed


def verdict(sent: Sent, received: Received, replayed: Replayed) -> Report:
    return judge(sent, {"audit": received}, replayed)


def test_good_books_are_good() -> None:
    assert verdict(*books()).is_good


def test_an_acknowledged_event_that_is_not_in_the_log_is_a_loss() -> None:
    sent, received, _ = books()
    _, _, replayed = books(range(9))

    report = verdict(sent, received, replayed)

    assert not report.is_good
    assert "1 acknowledged events are missing in the log" in sentence(report)


def test_an_event_that_is_twice_in_the_log_is_a_duplicate() -> None:
    sent, received, replayed = books()
    replayed.take(CLICKS, 0, b"web-01", 9)

    assert not verdict(sent, received, replayed).is_good


def test_events_of_a_key_in_another_order_are_a_fault() -> None:
    sent, received, _ = books()
    replayed = Replayed()
    for number in [1, 0, *range(2, 10)]:
        replayed.take(CLICKS, 0, b"web-01", number)

    assert not verdict(sent, received, replayed).is_good


def test_a_group_that_missed_an_event_is_a_fault() -> None:
    sent, _, replayed = books()
    _, received, _ = books(range(9))

    assert not verdict(sent, received, replayed).is_good


def test_a_group_may_get_an_event_again() -> None:
    sent, received, replayed = books()
    received.add("member-1", CLICKS, 3)

    report = verdict(sent, received, replayed)

    assert report.is_good
    assert report.groups[0].repeated == 1


def test_a_refused_event_is_a_fault() -> None:
    sent, received, replayed = books()
    sent.refused.append((Event(10, CLICKS, b"web-01", b"{}"), "timed out"))

    assert not verdict(sent, received, replayed).is_good
