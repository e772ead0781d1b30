import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.client.offsets import OffsetSpan
from millstream.client.outlook import (
    GroupPosition,
    PartitionFacts,
    Retention,
    observed,
    outlook,
    retention_of,
)

NOW_MS = 1_794_782_030_979
DAY_MS = 86_400_000
FOR_EVER = Retention(age_ms_max=None, size_bytes_max=None)


def partition(
    *, number: int = 0, start: int = 0, end: int = 1_000, size: int | None = 100_000, rate: float = 10.0
) -> PartitionFacts:
    return PartitionFacts(
        partition=number, span=OffsetSpan(start=start, end=end), size_bytes=size, records_per_s=rate
    )


def position(
    *, committed: int, age_ms: int | None = 0, group: str = "billing", number: int = 0
) -> GroupPosition:
    since = None if age_ms is None else NOW_MS - age_ms
    return GroupPosition(group=group, partition=number, committed=committed, unread_since_ms=since)


class TestRate:
    def test_records_in_a_full_window_are_spread_over_the_window(self) -> None:
        seen = observed(OffsetSpan(start=0, end=700), (100, NOW_MS - 59_000), window_ms=60_000, now_ms=NOW_MS)

        assert seen.records_per_s == 10.0

    def test_a_topic_younger_than_the_window_is_measured_since_its_first_record(self) -> None:
        seen = observed(OffsetSpan(start=0, end=100), (0, NOW_MS - 5_000), window_ms=60_000, now_ms=NOW_MS)

        assert seen.records_per_s == 20.0
        assert seen.elapsed_ms == 5_000

    def test_a_burst_just_now_is_spread_over_a_second(self) -> None:
        seen = observed(OffsetSpan(start=0, end=100), (0, NOW_MS + 50), window_ms=60_000, now_ms=NOW_MS)

        assert seen.records_per_s == 100.0

    def test_nothing_in_the_window_is_no_rate(self) -> None:
        assert (
            observed(OffsetSpan(start=0, end=9), None, window_ms=60_000, now_ms=NOW_MS).records_per_s == 0.0
        )


class TestRetention:
    def test_kafkas_defaults_keep_a_week_of_any_size(self) -> None:
        config = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}

        assert retention_of(config) == Retention(age_ms_max=604_800_000, size_bytes_max=None)

    def test_a_compacted_topic_drops_nothing_by_age(self) -> None:
        assert retention_of({"cleanup.policy": "compact", "retention.ms": "1000"}) == FOR_EVER

    def test_a_topic_that_compacts_and_deletes_does(self) -> None:
        config = {"cleanup.policy": "compact,delete", "retention.ms": "1000", "retention.bytes": "5"}

        assert retention_of(config) == Retention(age_ms_max=1_000, size_bytes_max=5)

    def test_an_archived_topic_stays_readable_as_long_as_its_archive(self) -> None:
        config = {"retention.ms": "1000", "millstream.archive.enable": "true"}

        assert retention_of(config) == FOR_EVER
        assert retention_of({**config, "millstream.archive.retention.ms": "5000"}).age_ms_max == 5_000


class TestHowLongARecordStays:
    def test_age_decides_when_the_rate_is_low(self) -> None:
        found = outlook(
            [partition(rate=1)],
            Retention(age_ms_max=DAY_MS, size_bytes_max=100_000_000),
            free_bytes=None,
            now_ms=NOW_MS,
        )

        assert (found.lasts_s, found.bound) == (86_400, "age")

    def test_size_decides_when_the_rate_is_high(self) -> None:
        found = outlook(
            [partition(rate=10)],  # 100 bytes each: 1,000 bytes a second
            Retention(age_ms_max=DAY_MS, size_bytes_max=3_600_000),
            free_bytes=None,
            now_ms=NOW_MS,
        )

        assert (found.lasts_s, found.bound) == (3_600, "size")

    def test_the_busiest_partition_decides(self) -> None:
        found = outlook(
            [partition(number=0, rate=1), partition(number=1, rate=10)],
            Retention(age_ms_max=None, size_bytes_max=1_000_000),
            free_bytes=None,
            now_ms=NOW_MS,
        )

        assert found.lasts_s == 1_000

    def test_without_limits_it_stays_for_ever(self) -> None:
        found = outlook([partition()], FOR_EVER, free_bytes=None, now_ms=NOW_MS)

        assert (found.lasts_s, found.bound) == (None, "nothing")


class TestDisk:
    def test_it_fills_when_nothing_is_ever_dropped(self) -> None:
        found = outlook([partition(rate=10)], FOR_EVER, free_bytes=3_600_000, now_ms=NOW_MS)

        assert found.disk_full_in_s == 3_600
        assert found.settles_at_bytes is None

    def test_it_has_room_when_retention_balances_the_rate_in_time(self) -> None:
        # 1,000 bytes a second for a day is 86.4 MB at rest.
        found = outlook(
            [partition(rate=10)],
            Retention(age_ms_max=DAY_MS, size_bytes_max=None),
            free_bytes=90_000_000,
            now_ms=NOW_MS,
        )

        assert found.disk_full_in_s is None
        assert found.settles_at_bytes == pytest.approx(86_400_000)

    def test_growth_slows_as_partitions_reach_their_size(self) -> None:
        # Each grows by 1,000 B/s; the first stops after 100 s, so 150 s are needed for 250,000 bytes.
        full = partition(number=0, size=100_000)
        empty = partition(number=1, end=10, size=1_000)
        retention = Retention(age_ms_max=None, size_bytes_max=200_000)

        found = outlook([full, empty], retention, free_bytes=250_000, now_ms=NOW_MS)

        assert found.disk_full_in_s == pytest.approx(150)

    def test_an_idle_topic_never_fills_it(self) -> None:
        found = outlook([partition(rate=0)], FOR_EVER, free_bytes=1, now_ms=NOW_MS)

        assert found.disk_full_in_s is None
        assert found.settles_at_bytes == 100_000

    def test_without_sizes_nothing_is_claimed(self) -> None:
        found = outlook([partition(size=None)], FOR_EVER, free_bytes=1_000, now_ms=NOW_MS)

        assert found.bytes_per_s is None
        assert not found.disk_known
        assert found.disk_full_in_s is None


class TestGroups:
    def test_a_group_loses_data_when_its_oldest_unread_record_expires(self) -> None:
        found = outlook(
            [partition()],
            Retention(age_ms_max=DAY_MS, size_bytes_max=None),
            free_bytes=None,
            groups=[position(committed=900, age_ms=DAY_MS - 60_000)],
            now_ms=NOW_MS,
        )

        (risk,) = found.risks
        assert (risk.lag, risk.lost, risk.time_left_s) == (100, 0, 60)

    def test_or_when_newer_records_push_it_out(self) -> None:
        # 100 unread records are 10,000 bytes; 10,000 more fit, at 1,000 bytes a second.
        found = outlook(
            [partition()],
            Retention(age_ms_max=None, size_bytes_max=20_000),
            free_bytes=None,
            groups=[position(committed=900)],
            now_ms=NOW_MS,
        )

        assert found.risks[0].time_left_s == 10

    def test_what_is_overdue_has_no_time_left(self) -> None:
        found = outlook(
            [partition()],
            Retention(age_ms_max=1_000, size_bytes_max=None),
            free_bytes=None,
            groups=[position(committed=0, age_ms=50_000)],
            now_ms=NOW_MS,
        )

        assert found.risks[0].time_left_s == 0

    def test_records_already_gone_are_counted_as_lost(self) -> None:
        found = outlook(
            [partition(start=500)], FOR_EVER, free_bytes=None, groups=[position(committed=400)], now_ms=NOW_MS
        )

        assert (found.risks[0].lag, found.risks[0].lost) == (600, 100)

    def test_a_group_at_the_end_has_nothing_to_lose(self) -> None:
        found = outlook(
            [partition()], FOR_EVER, free_bytes=None, groups=[position(committed=1_000)], now_ms=NOW_MS
        )

        assert found.risks == ()

    def test_the_one_with_the_least_time_comes_first(self) -> None:
        found = outlook(
            [partition(number=0), partition(number=1)],
            Retention(age_ms_max=DAY_MS, size_bytes_max=None),
            free_bytes=None,
            groups=[
                position(group="calm", committed=0, age_ms=None),
                position(group="late", committed=999, age_ms=DAY_MS // 2, number=1),
                position(group="soon", committed=10, age_ms=DAY_MS - 1_000),
            ],
            now_ms=NOW_MS,
        )

        assert [risk.group for risk in found.risks] == ["soon", "late", "calm"]


@given(
    rates=st.lists(st.floats(min_value=0, max_value=1e7), min_size=1, max_size=5),
    size=st.integers(min_value=0, max_value=2**50),
    age_ms=st.none() | st.integers(min_value=0, max_value=2**40),
    size_max=st.none() | st.integers(min_value=0, max_value=2**50),
    free=st.none() | st.integers(min_value=0, max_value=2**50),
)
def test_no_answer_is_negative_whatever_the_facts(
    rates: list[float], size: int, age_ms: int | None, size_max: int | None, free: int | None
) -> None:
    facts = [partition(number=n, size=size, rate=rate) for n, rate in enumerate(rates)]

    found = outlook(
        facts,
        Retention(age_ms_max=age_ms, size_bytes_max=size_max),
        free_bytes=free,
        groups=[position(committed=1)],
        now_ms=NOW_MS,
    )

    times = (found.lasts_s, found.disk_full_in_s, found.risks[0].time_left_s)
    assert all(value is None or value >= 0 for value in times)
