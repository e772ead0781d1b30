"""What is old goes, from the beginning, whole segments at a time."""

import os

import pytest

from millstream.log.errors import OffsetOutOfRange
from tests.log.box import Box, append, read_batches, read_values

DAY_MS = 86_400_000


def fill(box, count=10, *, apart_ms=1_000, size=300):
    """A segment for every three batches; a batch a second; all of it synced."""
    log = box.open()
    for number in range(count):
        append(log, b"%02d" % number * (size // 2), timestamp_ms=box.clock.now_ms())
        box.clock.advance(apart_ms)
    box.settle()
    return log


def expire(box):
    doomed = box.log.expire(box.clock.now_ms())
    for path in doomed:
        path.unlink()
    return doomed


def make_box(tmp_path, **overrides):
    return Box(tmp_path, segment_bytes=1_200, **overrides)


def test_segments_whose_newest_record_is_too_old_go(tmp_path):
    box = make_box(tmp_path, retention_ms=5_000)
    log = fill(box)

    expire(box)

    assert log.start_offset == 3
    assert read_values(log)[0][:2] == b"03"
    with pytest.raises(OffsetOutOfRange, match=r"outside \[3, 10\)"):
        log.read(2, 1_000, limit=10)


def test_expired_segments_are_renamed_and_left_to_the_janitor(tmp_path):
    box = make_box(tmp_path, retention_ms=5_000)
    log = fill(box)

    doomed = log.expire(box.clock.now_ms())

    assert sorted(path.name for path in doomed) == [
        f"{0:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")
    ]
    assert log.expire(box.clock.now_ms()) == []


def test_age_is_that_of_the_records(tmp_path):
    box = make_box(tmp_path, retention_ms=DAY_MS)
    log = box.open()
    for _ in range(10):
        append(log, b"x" * 300, timestamp_ms=5)
    box.settle()

    expire(box)

    assert (log.start_offset, log.end_offset) == (10, 10)


def test_a_record_dated_in_the_future_keeps_its_segment(tmp_path):
    box = make_box(tmp_path, retention_ms=1_000)
    log = box.open()
    append(log, b"x", timestamp_ms=box.clock.now_ms() + DAY_MS)
    box.settle()
    box.clock.advance(10_000)

    assert expire(box) == []


def test_records_without_a_time_are_as_old_as_their_file(tmp_path):
    box = make_box(tmp_path, retention_ms=1_000)
    log = box.open()
    append(log, b"x" * 1_000, timestamp_ms=-1)
    append(log, b"y" * 1_000, timestamp_ms=-1)
    box.settle()
    now_s = box.clock.now_ms() / 1000
    os.utime(box.segment_paths()[0], (now_s - 2, now_s - 2))
    os.utime(box.segment_paths()[1], (now_s, now_s))

    expire(box)

    assert log.start_offset == 1


def test_minus_one_keeps_everything(tmp_path):
    box = make_box(tmp_path, retention_ms=-1, retention_bytes=-1)
    fill(box)
    box.clock.advance(100 * 365 * DAY_MS)

    assert expire(box) == []


def test_when_everything_is_too_old_the_end_offset_stays(tmp_path):
    box = make_box(tmp_path, retention_ms=5_000)
    log = fill(box)
    box.clock.advance(DAY_MS)

    expire(box)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (10, 10, 0)
    assert append(log, b"next") == 10
    assert read_values(box.crash()) == [b"next"]


def test_an_emptied_log_keeps_its_end_offset_over_a_crash(tmp_path):
    box = make_box(tmp_path, retention_ms=5_000)
    fill(box)
    box.clock.advance(DAY_MS)
    expire(box)
    (box.directory / "checkpoint.json").unlink()

    log = box.crash()

    assert (log.start_offset, log.end_offset) == (10, 10)


def test_nothing_behind_the_high_watermark_goes(tmp_path):
    box = make_box(tmp_path, retention_ms=1)
    log = fill(box, 4)
    append(log, b"not yet synced", timestamp_ms=1)
    box.clock.advance(DAY_MS)

    expire(box)

    assert read_values(log)[-1] == b"not yet synced"


def test_the_oldest_segments_go_while_enough_stays(tmp_path):
    box = make_box(tmp_path, retention_bytes=2_000, retention_ms=-1)
    log = fill(box)
    before = log.size_bytes

    expire(box)

    assert log.start_offset == 3
    assert 2_000 <= log.size_bytes < before


def test_a_size_of_zero_empties_the_log(tmp_path):
    box = make_box(tmp_path, retention_bytes=0, retention_ms=-1)
    log = fill(box)

    expire(box)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (10, 10, 0)


def test_a_compacted_log_is_not_expired(tmp_path):
    box = make_box(tmp_path, retention_ms=1, retention_bytes=0, cleanup_policy="compact")
    fill(box)
    box.clock.advance(DAY_MS)

    assert expire(box) == []


def test_a_compacted_and_deleted_log_is(tmp_path):
    box = make_box(tmp_path, retention_ms=1, cleanup_policy="compact,delete")
    log = fill(box)
    box.clock.advance(DAY_MS)
    expire(box)

    assert log.start_offset == 10


def test_deleting_records_moves_the_start_inside_a_segment(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)

    log.delete_before(4)

    assert log.start_offset == 4
    assert read_values(log)[0][:2] == b"04"
    assert {path.name[:20] for path in log.expire(box.clock.now_ms())} == {f"{0:020d}"}


def test_deleting_all_records_leaves_an_empty_log(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)

    log.delete_before(log.high_watermark)
    expire(box)

    assert (log.start_offset, log.end_offset, log.size_bytes) == (10, 10, 0)
    assert append(log, b"next") == 10


@pytest.mark.parametrize("reopen", ["crash", "restart"])
def test_deleted_records_stay_deleted(tmp_path, reopen):
    box = make_box(tmp_path)
    log = fill(box)
    log.delete_before(5)

    assert getattr(box, reopen)().start_offset == 5


def test_deleting_never_goes_beyond_the_high_watermark_nor_back(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    append(log, b"not yet synced")
    log.delete_before(100)
    log.delete_before(2)

    assert (log.start_offset, read_values(log)) == (10, [b"not yet synced"])


def test_files_waiting_for_the_janitor_are_not_read_after_a_crash(tmp_path):
    box = make_box(tmp_path, retention_ms=5_000)
    log = fill(box)
    log.expire(box.clock.now_ms())

    log = box.crash()

    assert log.start_offset == 3
    assert len(read_batches(log)[0]) == 7
    assert len(log.expire(box.clock.now_ms())) == 3


def test_segments_below_a_start_that_only_the_catalog_knew_go_too(tmp_path):
    box = make_box(tmp_path)
    fill(box)
    log = box.crash(start_offset_min=7)

    assert {path.name[:20] for path in log.expire(box.clock.now_ms())} == {f"{0:020d}", f"{3:020d}"}
