"""When a log is compacted, and how the result takes its place, whenever the node dies."""

import os
from contextlib import suppress

import pytest

from millstream.log import cleaning, inventory
from millstream.log.compaction import compact
from tests.log.box import Box, append, overwrite, read_batches, read_records

DAY_MS = 86_400_000


def make_box(tmp_path, **overrides):
    return Box(tmp_path, **{"cleanup_policy": "compact", "segment_bytes": 1_024, **overrides})


def fill(box, keys=5, rounds=8):
    """Every key is written once a round; the last round is the table."""
    log = box.open()
    for number in range(rounds):
        for key in range(keys):
            append(
                log, b"%d-%d" % (key, number) + b"." * 60, key=b"%d" % key, timestamp_ms=box.clock.now_ms()
            )
    box.settle()
    return log


def clean(box):
    """What the node does: plan, compact elsewhere, apply, unlink."""
    plan = box.log.compaction_plan(box.clock.now_ms())
    doomed = box.log.apply_compaction(plan, compact(plan))
    for path in doomed:
        path.unlink()
    return plan


def table(log):
    return {record.key: record.value for record in read_records(log)}


def test_a_compacted_log_gives_the_same_table_with_fewer_bytes(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    before, size = table(log), log.size_bytes

    clean(box)

    assert table(log) == before
    assert log.size_bytes < size / 2
    assert log.size_bytes == sum(path.stat().st_size for path in box.segment_paths())


def test_offsets_stay_and_gaps_are_read_over(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    before = {record.offset: record.value for record in read_records(log)}
    end = log.end_offset
    clean(box)
    after = {record.offset: record.value for record in read_records(log)}

    assert after.items() <= before.items()
    assert (log.start_offset, log.end_offset) == (0, end)
    for offset in range(end):
        expected = min(found for found in [*after, end] if found >= offset)
        found = read_records(log, offset)
        assert found[0].offset == expected if found else expected == end


@pytest.mark.parametrize("reopen", ["crash", "restart"])
def test_a_compacted_log_survives(tmp_path, reopen):
    box = make_box(tmp_path)
    log = fill(box)
    clean(box)
    before, end = read_records(log), log.end_offset

    log = getattr(box, reopen)()

    assert read_records(log) == before
    assert log.end_offset == end


@pytest.mark.parametrize("lost", ["checkpoint.json", "*.index", "*.timeindex"])
def test_a_compacted_log_needs_no_other_file(tmp_path, lost):
    box = make_box(tmp_path)
    log = fill(box)
    clean(box)
    before = read_records(log)
    box.drop()
    for path in box.directory.glob(lost):
        path.unlink()

    assert read_records(box.open(clean=False)) == before


def test_a_flipped_bit_in_a_compacted_log_harms_one_batch(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    clean(box)
    log.close()
    path = box.segment_paths()[0]
    content = path.read_bytes()
    whole = read_batches(box.open(clean=True))[0]
    before = box.snapshot()

    for place in range(0, len(content), 5):
        box.go_back(before)
        overwrite(path, content[:place] + bytes([content[place] ^ 8]) + content[place + 1 :])
        batches, _ = read_batches(box.open(clean=True))

        assert batches.items() <= whole.items()
        assert len(batches) >= len(whole) - 1


def test_the_active_segment_is_never_compacted(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)

    plan = log.compaction_plan(box.clock.now_ms())

    assert plan.upto_offset <= int(box.segment_paths()[-1].stem)
    assert [segment.base_offset for segment in plan.segments] == [
        int(path.stem) for path in box.segment_paths()[:-1]
    ]


def test_nothing_is_planned_without_the_policy(tmp_path):
    box = make_box(tmp_path, cleanup_policy="delete")

    assert fill(box).compaction_plan(box.clock.now_ms()) is None


def test_nothing_is_planned_behind_the_high_watermark(tmp_path):
    box = make_box(tmp_path)
    log = box.open()
    for number in range(40):
        append(log, b"%d" % number * 30, key=b"k")

    assert log.compaction_plan(box.clock.now_ms()) is None


def test_a_clean_log_is_left_alone_until_enough_of_it_is_dirty(tmp_path):
    box = make_box(tmp_path, min_cleanable_dirty_ratio=0.5)
    log = fill(box, keys=40, rounds=2)
    clean(box)
    right_after = log.compaction_plan(box.clock.now_ms())
    for _ in range(12):
        append(log, b"new" * 30, key=b"0")
    box.settle()
    a_little_later = log.compaction_plan(box.clock.now_ms())
    for _ in range(80):
        append(log, b"new" * 30, key=b"0")
    box.settle()

    assert (right_after, a_little_later) == (None, None)
    assert log.compaction_plan(box.clock.now_ms()) is not None


def test_young_records_wait_for_their_lag(tmp_path):
    box = make_box(tmp_path, min_compaction_lag_ms=10_000)
    log = fill(box)
    too_young = log.compaction_plan(box.clock.now_ms())
    box.clock.advance(10_001)

    assert too_young is None
    assert log.compaction_plan(box.clock.now_ms()) is not None


def test_a_log_that_is_hardly_dirty_is_compacted_after_the_longest_lag(tmp_path):
    box = make_box(tmp_path, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=10_000)
    log = fill(box, keys=40, rounds=2)
    box.clock.advance(20_000)
    log.roll()
    clean(box)
    for _ in range(15):
        append(log, b"new" * 30, key=b"0", timestamp_ms=box.clock.now_ms())
    box.settle()
    before = log.compaction_plan(box.clock.now_ms())
    box.clock.advance(10_001)

    assert before is None
    assert log.compaction_plan(box.clock.now_ms()) is not None


def test_tombstones_go_after_their_time(tmp_path):
    box = make_box(tmp_path, delete_retention_ms=DAY_MS)
    log = fill(box)
    append(log, None, key=b"0", timestamp_ms=box.clock.now_ms())
    for _ in range(12):
        append(log, b"filler" * 20, key=b"f", timestamp_ms=box.clock.now_ms())
    box.settle()
    clean(box)
    with_tombstone = table(log)
    log = box.restart()
    box.clock.advance(DAY_MS + 1)
    clean(box)

    assert with_tombstone[b"0"] is None
    assert b"0" not in table(log)


def test_compacting_again_and_again_changes_nothing(tmp_path):
    box = make_box(tmp_path, min_cleanable_dirty_ratio=0)
    log = fill(box)
    before = table(log)
    for _ in range(3):
        append(log, b"x" * 900, key=b"big")
        append(log, b"x" * 900, key=b"big")
        box.settle()
        clean(box)

    assert {key: value for key, value in table(log).items() if key != b"big"} == before


def test_producers_are_still_known_after_their_batches_were_compacted(tmp_path):
    box = make_box(tmp_path)
    log = box.open()
    for sequence in range(12):
        append(log, b"x" * 300, key=b"k", producer_id=7, producer_epoch=0, base_sequence=sequence)
    box.settle()
    clean(box)
    box.drop()
    for name in ("checkpoint.json", "producers.snapshot"):
        (box.directory / name).unlink()

    log = box.open(clean=False)

    assert log.producers.get(7).last_sequence == 11
    assert len(log.producers.get(7).batches) == 5


def test_a_result_whose_sources_are_gone_is_discarded(tmp_path):
    box = make_box(tmp_path, cleanup_policy="compact,delete", retention_ms=5_000)
    log = fill(box)
    plan = log.compaction_plan(box.clock.now_ms())
    result = compact(plan)
    box.clock.advance(DAY_MS)
    log.expire(box.clock.now_ms())

    assert log.apply_compaction(plan, result) == []
    assert (log.start_offset, log.size_bytes) == (log.end_offset, 0)
    assert not list(box.directory.glob("*.cleaned"))


def test_a_result_for_a_log_that_was_destroyed_is_discarded(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    plan = log.compaction_plan(box.clock.now_ms())
    result = compact(plan)
    log.destroy()

    assert log.apply_compaction(plan, result) == []


def test_what_was_being_read_stays_readable(tmp_path):
    box = make_box(tmp_path, segment_bytes=200_000)
    log = box.open()
    for _ in range(3):
        append(log, b"x" * 150_000, key=b"k")
    box.settle()
    held = log.read(0, 1 << 20, limit=log.end_offset).buffers[0]
    before = bytes(held)
    clean(box)

    assert bytes(held) == before


class Died(Exception):
    pass


class MortalDisk:
    """`os` whose renames and unlinks work until the node dies at the nth."""

    def __init__(self, steps):
        self.steps = steps

    def __getattr__(self, name):
        return getattr(os, name)

    def rename(self, source, target):
        if not self.steps:
            raise Died
        self.steps -= 1
        os.rename(source, target)


@pytest.mark.parametrize("steps", range(40))
def test_a_node_that_dies_during_the_swap_has_the_old_log_or_the_new_one(tmp_path, steps):
    box = make_box(tmp_path, segment_bytes=2_048)
    log = fill(box)
    before, end = table(log), log.end_offset
    log.checkpoint()
    plan = log.compaction_plan(box.clock.now_ms())
    result = compact(plan)
    with pytest.MonkeyPatch.context() as patch, suppress(Died):
        disk = MortalDisk(steps)
        patch.setattr(cleaning, "os", disk)
        patch.setattr(inventory, "os", disk)
        log.apply_compaction(plan, result)

    log = box.crash()

    assert (table(log), log.start_offset, log.end_offset) == (before, 0, end)
    assert not [name for name in box.names() if name.endswith((".swap", ".cleaned"))]
    append(log, b"next", key=b"next")
    assert table(box.crash())[b"next"] == b"next"


@pytest.mark.parametrize("steps", range(12))
def test_a_node_that_dies_while_completing_a_swap_completes_it_the_next_time(tmp_path, steps):
    box = make_box(tmp_path, segment_bytes=2_048)
    log = fill(box)
    before = table(log)
    plan = log.compaction_plan(box.clock.now_ms())
    result = compact(plan)
    box.drop()
    first = result.segments[0]
    os.rename(
        box.directory / f"{first.base_offset:020d}.log.cleaned",
        box.directory / inventory.swap_name(first.base_offset, first.next_offset),
    )
    with pytest.MonkeyPatch.context() as patch, suppress(Died):
        patch.setattr(inventory, "os", MortalDisk(steps))
        box.open(clean=False)

    log = box.crash()

    assert table(log) == before
    assert not list(box.directory.glob("*.swap"))


@pytest.mark.parametrize("steps", range(16))
def test_a_compacted_segment_as_large_as_its_predecessor_is_not_taken_for_it(tmp_path, steps):
    box = make_box(tmp_path, min_cleanable_dirty_ratio=0)
    log = box.open()
    value = 0
    for _ in range(4):
        for _ in range(40):
            append(log, b"%04d" % value, key=b"%d" % (value % 4), timestamp_ms=value)
            value += 1
        log.roll()
        box.settle()
        plan = log.compaction_plan(box.clock.now_ms())
        result = compact(plan)
        with pytest.MonkeyPatch.context() as patch, suppress(Died):
            disk = MortalDisk(steps)
            patch.setattr(cleaning, "os", disk)
            patch.setattr(inventory, "os", disk)
            log.apply_compaction(plan, result)
        log = box.crash()

        assert table(log) == {b"%d" % (number % 4): b"%04d" % number for number in range(value - 4, value)}
