from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.client.positions import (
    AtOffset,
    AtTime,
    Beginning,
    End,
    LastRecords,
    Position,
    parse_duration_ms,
    parse_position,
    parse_time_ms,
    time_text,
)
from millstream.model.errors import BadRequest

NOW_MS = 1_794_782_030_979


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("beginning", Beginning()),
        ("earliest", Beginning()),
        ("END", End()),
        ("latest", End()),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("-10", LastRecords(10)),
        ("@1794782030979", AtTime(1_794_782_030_979)),
        ("2h", AtTime(NOW_MS - 7_200_000)),
        ("1d12h", AtTime(NOW_MS - 129_600_000)),
        ("2026-11-15T09:30:00Z", AtTime(1_794_735_000_000)),
        ("2026-11-15T09:30:00+01:00", AtTime(1_794_731_400_000)),
    ],
)
def test_a_place_in_words_is_one_value(text: str, position: Position) -> None:
    assert parse_position(text, now_ms=NOW_MS) == position


@pytest.mark.parametrize("text", ["", "soon", "--1", "-", "1.5", "@", "@x", "2026-13-01", "2 h", "٣"])
def test_anything_else_is_refused_with_what_can_be_written(text: str) -> None:
    with pytest.raises(BadRequest, match="use beginning, end, an offset"):
        parse_position(text, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("1.5h", 5_400_000),
        ("1w", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("P2D", 172_800_000),
    ],
)
def test_durations_are_taken_as_people_and_as_kafka_write_them(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "h", "P", "PT", "-5m", "5 m"])
def test_a_duration_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="write 90s"):
        parse_duration_ms(text)


def test_a_date_without_a_zone_is_local_time() -> None:
    assert parse_time_ms("2026-11-15T09:30") == int(datetime(2026, 11, 15, 9, 30).timestamp() * 1_000)


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2999, 1, 1)))
def test_a_time_that_was_shown_can_be_typed_back(moment: datetime) -> None:
    timestamp_ms = int(
        moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000).timestamp() * 1000
    )

    assert abs(parse_time_ms(time_text(timestamp_ms)) - timestamp_ms) <= 1


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_every_timestamp_that_a_record_can_carry_can_be_shown(timestamp_ms: int) -> None:
    assert time_text(timestamp_ms)
