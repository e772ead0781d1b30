"""Append at one end, read anywhere."""

import os

import pytest

from millstream.codec.batch import read_header
from millstream.codec.records import Record
from millstream.log.errors import OffsetOutOfRange
from tests.log.box import (
    append,
    append_batch,
    batches_in,
    make_batch,
    read_batches,
    read_records,
    read_values,
)


def offsets(result):
    return [header.base_offset for header, _ in batches_in(result)]


def test_an_empty_log_starts_and_ends_at_zero(log):
    assert (log.start_offset, log.high_watermark, log.end_offset, log.size_bytes) == (0, 0, 0, 0)


def test_appending_returns_the_first_offset_and_moves_the_end(log):
    first = append(log, b"a", b"b", b"c")
    second = append(log, b"d")

    assert (first, second, log.end_offset) == (0, 3, 4)


def test_appending_leaves_the_high_watermark(log):
    append(log, b"a")

    assert log.high_watermark == 0


def test_a_batch_is_stored_as_it_came_but_for_its_offset_and_epoch(box, log):
    append(log, b"before")
    batch = make_batch(b"a", b"b")
    sent = bytes(batch)

    append_batch(log, batch)

    stored = read_batches(log)[0][1]
    assert stored[16:] == sent[16:]
    assert stored[8:12] == sent[8:12]
    assert (read_header(stored).base_offset, read_header(stored).leader_epoch) == (1, box.epoch)


def test_a_batch_can_be_a_part_of_a_larger_buffer(log):
    request = bytearray(b"head") + make_batch(b"a") + b"tail"
    view = memoryview(request)[4:-4]

    log.append(view, read_header(view))

    assert read_values(log) == [b"a"]


def test_reading_returns_whole_batches_from_the_one_that_holds_the_offset(log):
    append(log, b"a", b"b", b"c")
    append(log, b"d", b"e")

    assert offsets(log.read(1, 10_000, limit=5)) == [0, 3]
    assert offsets(log.read(3, 10_000, limit=5)) == [3]
    assert offsets(log.read(4, 10_000, limit=5)) == [3]


def test_reading_ends_before_the_limit(log):
    append(log, b"a", b"b")
    append(log, b"c")
    append(log, b"d")

    assert offsets(log.read(0, 10_000, limit=3)) == [0, 2]
    assert offsets(log.read(2, 10_000, limit=2)) == []


def test_reading_at_the_end_finds_nothing(log):
    append(log, b"a")

    assert log.read(1, 10_000, limit=1).size == 0


@pytest.mark.parametrize("offset", [-1, 2])
def test_reading_outside_the_log_says_where_it_is(log, offset):
    append(log, b"a")

    with pytest.raises(OffsetOutOfRange, match=rf"shop.orders-0: offset {offset} is outside \[0, 1\)"):
        log.read(offset, 10_000, limit=1)


def test_reading_takes_as_many_batches_as_fit(log):
    size = len(make_batch(b"a"))
    for _ in range(10):
        append(log, b"a")

    assert offsets(log.read(0, 3 * size + 1, limit=10)) == [0, 1, 2]
    assert log.read(0, 3 * size + 1, limit=10).size == 3 * size


def test_one_batch_is_returned_though_it_is_too_large(log):
    append(log, b"x" * 1_000)
    append(log, b"y")

    assert offsets(log.read(0, 10, limit=2)) == [0]


def test_no_batch_is_returned_that_is_too_large_if_the_caller_has_some_already(log):
    append(log, b"x" * 1_000)

    assert log.read(0, 10, limit=1, min_one=False).size == 0


@pytest.mark.parametrize("size", [10, 5_000, 100_000])
def test_every_offset_can_be_read_with_every_size(box, size):
    log = box.open()
    for number in range(60):
        append(log, b"%d" % number * (number + 1), b"second")

    for offset in range(log.end_offset):
        assert read_values(log, offset) == read_values(log)[offset:]
        found = batches_in(log.read(offset, size, limit=log.end_offset))
        assert found[0][0].base_offset <= offset <= found[0][0].last_offset


def test_large_reads_are_slices_of_a_mapping(log):
    append(log, b"x" * 200_000)
    result = log.read(0, 1 << 20, limit=1)

    append(log, b"y" * 200_000)
    longer = log.read(0, 1 << 20, limit=2)

    assert [type(buffer) for buffer in result.buffers] == [memoryview]
    assert longer.size == 2 * result.size
    assert bytes(longer.buffers[0][: result.size]) == bytes(result.buffers[0])


def test_what_was_read_stays_valid_after_its_segment_is_gone(box, log):
    append(log, b"x" * 200_000)
    result = log.read(0, 1 << 20, limit=1)
    before = bytes(result.buffers[0])
    log.advance(1)

    log.delete_before(1)
    for path in box.log.expire(box.clock.now_ms()):
        os.unlink(path)

    assert bytes(result.buffers[0]) == before


def test_advancing_moves_the_high_watermark_and_tells(log):
    calls = []
    log.on_advance = lambda: calls.append(log.high_watermark)
    append(log, b"a", b"b")

    log.advance(1)
    log.advance(1)
    log.advance(0)
    log.advance(2)

    assert calls == [1, 2]


def test_internal_records_are_appended_as_one_batch(log):
    log.append_records([Record(0, 5, b"a", b"1"), Record(1, -1, b"b", None)], now_ms=77)

    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in read_records(log)] == [
        (0, 5, b"a", b"1"),
        (1, 77, b"b", None),
    ]


def test_a_log_rolls_when_a_segment_is_full(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(20):
        append(log, b"x" * 200)

    assert len(box.segment_paths()) == 7
    assert len(read_values(log)) == 20
    assert max(path.stat().st_size for path in box.segment_paths()) <= 1_024


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    append(log, b"small")
    append(log, b"x" * 5_000)
    append(log, b"small")

    assert [path.stem.lstrip("0") for path in box.segment_paths()] == ["", "1", "2"]
    assert len(read_values(log)) == 3


def test_a_log_rolls_when_a_segments_index_is_full(box):
    box.reconfigure(segment_index_bytes=16, index_interval_bytes=0)
    log = box.open()
    for _ in range(10):
        append(log, b"a")

    assert len(box.segment_paths()) == 4


def test_a_log_rolls_by_age_counted_from_the_first_append(box):
    box.reconfigure(segment_ms=1_000)
    log = box.open()
    box.clock.advance(5_000)
    append(log, b"a")
    box.clock.advance(999)
    append(log, b"b")
    box.clock.advance(1)
    append(log, b"c")

    assert [path.stem[-1] for path in box.segment_paths()] == ["0", "2"]


def test_records_dated_long_ago_don_t_make_a_segment_old(box):
    box.reconfigure(segment_ms=1_000)
    log = box.open()
    append(log, b"a", timestamp_ms=box.clock.now_ms())
    append(log, b"b", timestamp_ms=1)

    assert not log.roll_if_due(box.clock.now_ms())
    assert len(box.segment_paths()) == 1


@pytest.mark.parametrize("reopen", [None, "crash", "restart"])
def test_a_segment_holds_no_more_time_than_its_age(box, reopen):
    box.reconfigure(segment_ms=1_000)
    append(box.open(), b"a", timestamp_ms=5)
    log = getattr(box, reopen)() if reopen else box.log
    append(log, b"b", timestamp_ms=1_005)
    append(log, b"c", timestamp_ms=1_006)

    assert [path.stem[-1] for path in box.segment_paths()] == ["0", "2"]


def test_an_idle_segment_rolls_in_the_background(box):
    box.reconfigure(segment_ms=1_000)
    log = box.open()
    append(log, b"a")
    box.clock.advance(1_000)

    assert log.roll_if_due(box.clock.now_ms())
    assert not log.roll_if_due(box.clock.now_ms())
    assert (len(box.segment_paths()), log.end_offset) == (2, 1)


def test_an_empty_segment_never_rolls(box):
    box.reconfigure(segment_ms=1_000)
    log = box.open()
    box.clock.advance(10_000)

    assert not log.roll_if_due(box.clock.now_ms())


@pytest.mark.parametrize("jump_ms", [-(10**9), 10**9])
def test_a_clock_that_jumps_does_not_change_when_a_segment_rolls(box, jump_ms):
    box.reconfigure(segment_ms=1_000)
    log = box.open()
    append(log, b"a")
    box.clock.set_wall_clock(box.clock.now_ms() + jump_ms)
    box.clock.advance(999)
    too_early = log.roll_if_due(box.clock.now_ms())
    box.clock.advance(1)

    assert (too_early, log.roll_if_due(box.clock.now_ms())) == (False, True)


def test_a_clock_that_went_back_while_the_node_was_down_delays_rolling_by_one_age_at_most(box):
    box.reconfigure(segment_ms=1_000)
    append(box.open(), b"a")
    box.clock.set_wall_clock(5)
    log = box.restart()
    box.clock.advance(1_000)

    assert log.roll_if_due(box.clock.now_ms())


def test_age_goes_on_while_the_node_is_down(box):
    box.reconfigure(segment_ms=1_000)
    append(box.open(), b"a")
    box.clock.advance(1_000)
    log = box.restart()

    assert log.roll_if_due(box.clock.now_ms())


def test_jitter_makes_segments_roll_earlier_by_different_amounts(box):
    box.reconfigure(segment_ms=100_000, segment_jitter_ms=50_000)
    log = box.open()
    ages = []
    for _ in range(6):
        append(log, b"a")
        age = 0
        while not log.roll_if_due(box.clock.now_ms()):
            box.clock.advance(500)
            age += 500
        ages.append(age)

    assert all(50_000 <= age <= 100_000 for age in ages)
    assert len(set(ages)) > 1


def test_reading_goes_on_in_the_next_segment(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for number in range(30):
        append(log, b"%03d" % number * 60)

    assert read_values(log) == [b"%03d" % number * 60 for number in range(30)]
    assert offsets(log.read(0, 1 << 20, limit=30))[0] == 0


def test_the_size_is_that_of_all_segments(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(30):
        append(log, b"x" * 100)

    assert log.size_bytes == sum(path.stat().st_size for path in box.segment_paths())


def test_a_changed_configuration_counts_from_the_next_append(box, log):
    append(log, b"x" * 2_000)
    box.reconfigure(segment_bytes=1_024)
    append(log, b"x")

    assert len(box.segment_paths()) == 2


def test_destroying_sets_everything_aside(box, log):
    append(log, b"a")

    doomed = log.destroy()

    assert not box.directory.exists()
    assert [path.name.endswith(".deleted") for path in doomed] == [True]
    assert box.open().end_offset == 0


@pytest.mark.parametrize("size_max", [100, 5_000, 1 << 20])
def test_a_log_that_was_not_scanned_is_checked_as_it_is_read(box, monkeypatch, size_max):
    monkeypatch.setattr("millstream.log.reading.CHECK_BYTES_MAX", 2_000)
    log = box.open()
    for number in range(100):
        append(log, b"%03d" % number * 50)
    log = box.restart()

    for limit in (7, 50, 99, 100):
        for offset in (0, 3, 30, 6, 98, 55):
            batches, damaged = read_batches(log, offset, size_max=size_max, limit=limit)
            assert (list(batches), damaged) == (list(range(offset, limit)), [])
    assert len(read_values(log)) == 100


def test_bytes_are_checked_once(box, monkeypatch):
    log = box.open()
    for number in range(100):
        append(log, b"%03d" % number * 50)
    log = box.restart()
    read_values(log)
    monkeypatch.setattr("millstream.log.reading.checked_batches", None)

    assert len(read_values(log)) == 100
    assert len(read_values(log, 50)) == 50
