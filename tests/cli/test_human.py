import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli import human


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0.0 s"),
        (8.64, "8.6 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (7_500, "2 h 5 min"),
        (7_205, "2 h"),
        (604_800, "7 d"),
        (40_000_000, "1 year 97 d"),
        (1e15, "for ever"),
    ],
)
def test_durations_are_said_in_two_units(seconds: float | None, text: str) -> None:
    assert human.duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_536, "1.5 KiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**60, "1024.0 PiB"),
    ],
)
def test_sizes_are_said_in_powers_of_1024(size: float | None, text: str) -> None:
    assert human.size(size) == text


def test_small_rates_keep_their_digits() -> None:
    assert human.rate(0.064, "records") == "0.064 records/s"
    assert human.rate(23_513.2, "records") == "23 513 records/s"
    assert human.rate(0, "records") == "0 records/s"


@given(st.floats(min_value=0, max_value=1e20))
def test_every_duration_and_size_can_be_said(value: float) -> None:
    assert human.duration(value)
    assert human.size(value)
