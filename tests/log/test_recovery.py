"""What a log is after a crash, whatever the crash left behind."""

import errno
import os
import random

import pytest

from millstream.codec.batch import read_header
from millstream.log import recovery
from millstream.log.errors import CorruptRange, LogIOError
from millstream.log.producers import Duplicate
from tests.log.box import (
    Box,
    append,
    append_batch,
    make_batch,
    overwrite,
    produced,
    read_batches,
    read_values,
)

COUNT = 5


def small_log(root):
    """Five batches of two records, of different sizes."""
    box = Box(root)
    log = box.open()
    for number in range(COUNT):
        append(log, b"first" * number, b"second-%d" % number)
    return box


def contents(path):
    """(position, bytes) of each batch of a segment that is intact."""
    whole = path.read_bytes()
    found, position = [], 0
    while position < len(whole):
        size = read_header(whole, position).size
        found.append((position, whole[position : position + size]))
        position += size
    return found


# ---------------------------------------------------------------- nothing damaged


def test_everything_appended_survives_a_crash(box, log):
    append(log, b"a", b"b")
    append(log, b"c")

    log = box.crash()

    assert read_values(log) == [b"a", b"b", b"c"]
    assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 3, 3)


def test_everything_appended_survives_a_clean_stop(box, log):
    append(log, b"a", b"b")
    append(log, b"c")

    log = box.restart()

    assert read_values(log) == [b"a", b"b", b"c"]
    assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 3, 3)


def test_appending_goes_on_behind_what_survived(box, log):
    append(log, b"a")
    append(box.crash(), b"b")
    append(box.restart(), b"c")

    assert read_values(box.crash()) == [b"a", b"b", b"c"]


def test_a_clean_start_reads_no_segment(box, log, monkeypatch):
    append(log, b"a")
    log.close()
    monkeypatch.setattr("millstream.log.recovery.checked_batches", None)

    assert box.open(clean=True).end_offset == 1


def test_a_crash_after_a_checkpoint_scans_only_what_came_later(box, log, monkeypatch):
    for _ in range(50):
        append(log, b"x" * 500)
    box.settle()
    log.checkpoint()
    append(log, b"later")
    scanned = []
    real = recovery.checked_batches

    def spy(*arguments):
        for found in real(*arguments):
            scanned.append(found)
            yield found

    monkeypatch.setattr("millstream.log.recovery.checked_batches", spy)
    log = box.crash()

    assert [header.base_offset for _, header in scanned] == [50]
    assert read_values(log)[-1] == b"later"


def test_sealed_segments_that_were_synced_are_not_scanned(box, monkeypatch):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(20):
        append(log, b"x" * 200)
    box.settle()
    append(log, b"later")
    scanned = []
    real = recovery.checked_batches

    def spy(*arguments):
        for found in real(*arguments):
            scanned.append(found)
            yield found

    monkeypatch.setattr("millstream.log.recovery.checked_batches", spy)
    log = box.crash()

    assert {header.base_offset >= 18 for _, header in scanned} == {True}
    assert log.end_offset == 21


def test_a_rolled_log_survives_a_crash(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for number in range(30):
        append(log, b"%03d" % number * 60)

    log = box.crash()

    assert read_values(log) == [b"%03d" % number * 60 for number in range(30)]


def test_an_empty_active_segment_keeps_the_end_offset(box, log):
    append(log, b"a", b"b")
    log.roll()

    assert box.crash().end_offset == 2


@pytest.mark.parametrize(
    "pattern", ["*.index", "*.timeindex", "checkpoint.json", "producers.snapshot", "*[!g]"]
)
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("harm", ["missing", "empty", "garbage", "cut"])
def test_every_file_but_the_segments_can_be_lost(tmp_path, pattern, is_clean, harm):
    box = Box(tmp_path)
    box.reconfigure(segment_bytes=2_000, index_interval_bytes=100)
    log = box.open()
    for sequence in range(40):
        append_batch(log, produced(sequence=sequence, count=1))
    if is_clean:
        log.close()
    else:
        box.settle()
        log.checkpoint()
    box.drop()
    for path in box.directory.glob(pattern):
        content = path.read_bytes()
        if harm == "missing":
            path.unlink()
        else:
            path.write_bytes(
                {"empty": b"", "garbage": random.Random(1).randbytes(300), "cut": content[:-3]}[harm]
            )

    log = box.open(clean=is_clean)

    assert len(read_values(log)) == 40
    assert read_values(log, 17) == read_values(log)[17:]
    assert log.offset_for_timestamp(0, limit=40).offset == 0
    assert log.producers.check(read_header(produced(sequence=37))) == Duplicate(37, 38)
    assert append_batch(log, produced(sequence=40)) == 40
    assert len(read_values(box.crash())) == 41


def test_files_we_don_t_know_are_left_alone(box, log):
    append(log, b"a")
    for name in ["README", "00000000000000000000.log.bak", "123.log", "notes.tmp"]:
        (box.directory / name).write_text("mine")

    box.crash()

    assert {"README", "00000000000000000000.log.bak", "123.log", "notes.tmp"} <= set(box.names())


def test_unfinished_files_of_ours_are_removed(box, log):
    append(log, b"a")
    unfinished = ["checkpoint.json.tmp", "00000000000000000000.index.tmp", "00000000000000000000.log.cleaned"]
    for name in [*unfinished, "00000000000000000099.index"]:
        (box.directory / name).write_text("half")

    log = box.crash()

    assert not {*unfinished, "00000000000000000099.index"} & set(box.names())
    assert read_values(log) == [b"a"]


def test_files_set_aside_before_the_crash_are_given_to_the_janitor(box, log):
    append(log, b"a")
    log.roll()
    log.advance(1)
    log.delete_before(1)
    log = box.crash()

    assert {path.suffix for path in log.expire(box.clock.now_ms())} == {".deleted"}


# ---------------------------------------------------------------- torn tails


def test_a_log_cut_at_any_byte_keeps_every_whole_batch(tmp_path):
    box = small_log(tmp_path)
    segment = box.segment_paths()[0]
    whole = contents(segment)
    before = box.snapshot()

    for length in range(segment.stat().st_size):
        box.go_back(before)
        os.truncate(segment, length)
        log = box.open(clean=False)
        kept = [batch for position, batch in whole if position + len(batch) <= length]

        assert list(read_batches(log)[0].values()) == kept
        assert read_batches(log)[1] == []
        assert log.end_offset == log.high_watermark == 2 * len(kept)
        assert segment.stat().st_size == sum(len(batch) for batch in kept)
        assert append(log, b"next") == 2 * len(kept)


def test_bytes_that_were_synced_for_certain_are_missed_not_cut(tmp_path):
    box = small_log(tmp_path)
    box.log.close()
    segment = box.segment_paths()[0]
    whole = contents(segment)
    before = box.snapshot()

    for length in range(0, segment.stat().st_size, 7):
        box.go_back(before)
        os.truncate(segment, length)
        log = box.open(clean=True)
        kept = [batch for position, batch in whole if position + len(batch) <= length]
        batches, damaged = read_batches(log)

        assert list(batches.values()) == kept
        assert damaged == [(2 * len(kept), 2 * COUNT)]
        assert append(log, b"next") == 2 * COUNT
        batches, damaged = read_batches(box.crash())
        assert list(batches) == [*range(0, 2 * len(kept), 2), 2 * COUNT]
        assert damaged == [(2 * len(kept), 2 * COUNT)]


TAILS = {
    "a zero": bytes(1),
    "zeros": bytes(700),
    "many zeros": bytes(100_000),
    "ones": b"\xff" * 90,
    "magic bytes": b"\x02" * 300,
    "text": b"half a batch",
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_garbage_behind_the_last_batch_is_cut(tmp_path, tail):
    box = small_log(tmp_path)
    box.drop()
    segment = box.segment_paths()[0]
    content = segment.read_bytes()
    segment.write_bytes(content + tail)

    log = box.open(clean=False)

    assert segment.read_bytes() == content
    assert (log.end_offset, read_batches(log)[1]) == (2 * COUNT, [])


def test_random_garbage_behind_the_last_batch_never_becomes_a_record(tmp_path):
    box = small_log(tmp_path / "whole")
    box.drop()
    content = box.segment_paths()[0].read_bytes()
    randomness = random.Random(4)

    for _ in range(50):
        box.segment_paths()[0].write_bytes(content + randomness.randbytes(randomness.randrange(1, 500)))
        log = box.open(clean=False)

        assert len(read_batches(log)[0]) == COUNT
        box.drop()


def test_a_tail_of_zeros_is_never_served(tmp_path):
    box = small_log(tmp_path)
    segment = box.segment_paths()[0]
    whole = contents(segment)
    content = segment.read_bytes()
    before = box.snapshot()

    for start in range(0, len(content), 3):
        box.go_back(before)
        zeroed = content[:start] + bytes(len(content) - start)
        segment.write_bytes(zeroed)
        log = box.open(clean=False)
        # A batch may itself end with zeros: then it is whole.
        intact = [batch for p, batch in whole if zeroed[p : p + len(batch)] == batch]

        assert list(read_batches(log)[0].values()) == intact


def test_sectors_lost_in_a_power_cut_never_become_records(tmp_path):
    box = Box(tmp_path)
    log = box.open()
    randomness = random.Random(9)
    for _ in range(12):
        append(log, randomness.randbytes(randomness.randrange(20, 1_500)))
    segment = box.segment_paths()[0]
    content = segment.read_bytes()
    whole = contents(segment)
    before = box.snapshot()

    for _ in range(200):
        box.go_back(before)
        synced = randomness.randrange(len(content))
        segment.write_bytes(power_cut(content, synced, randomness))
        log = box.open(clean=False)
        batches, _ = read_batches(log)

        assert all(batches.get(n) == batch for n, (p, batch) in enumerate(whole) if p + len(batch) <= synced)
        assert all(whole[offset][1] == batch for offset, batch in batches.items())
        end = log.end_offset
        assert append(log, b"next") == end
        assert box.crash().end_offset == end + 1


def power_cut(content, synced, randomness):
    """What a disk may hold: all that was synced, and of the rest some sectors, some halves, some nothing."""
    after = bytearray(content[: randomness.randrange(synced, len(content)) + 1])
    for sector in range(synced // 512, len(after) // 512 + 1):
        low, high = max(synced, sector * 512), min(len(after), sector * 512 + 512)
        if low < high and randomness.random() < 0.4:
            kept = randomness.randrange(low, high) if randomness.random() < 0.5 else low
            after[kept:high] = bytes(high - kept)
    return after


# ---------------------------------------------------------------- damage


def flips(content, whole):
    """One bit of every byte, and every bit of the header fields of some batches."""
    randomness = random.Random(2)
    for place in range(len(content)):
        yield place, 1 << randomness.randrange(8)
    for number in (0, 2, COUNT - 1):
        start = whole[number][0]
        yield from ((start + place, 1 << bit) for place in range(27) for bit in range(8))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_flipped_bit_harms_no_other_batch(tmp_path, is_clean):
    box = small_log(tmp_path)
    if is_clean:
        box.log.close()
    segment = box.segment_paths()[0]
    whole = contents(segment)
    content = segment.read_bytes()
    before = box.snapshot()

    for place, bit in flips(content, whole):
        box.go_back(before)
        flipped = bytearray(content)
        flipped[place] ^= bit
        overwrite(segment, flipped)
        log = box.open(clean=is_clean, leader_epoch=2)
        batches, damaged = read_batches(log)
        hit = next(n for n, (p, b) in enumerate(whole) if p <= place < p + len(b))

        assert batches == {2 * n: b for n, (_, b) in enumerate(whole) if n != hit}, (place, bit)
        assert damaged == [(2 * hit, 2 * hit + 2)] or may_be_torn(hit, is_clean, damaged, log.end_offset)
        end = log.end_offset
        assert append(log, b"next") == end


def may_be_torn(hit, is_clean, damaged, end_offset):
    """The last batch can also be taken for one that was never finished, if nothing says it was synced."""
    return hit == COUNT - 1 and not is_clean and damaged in ([], [(2 * hit, end_offset)])


@pytest.mark.parametrize("number", range(COUNT))
def test_a_log_goes_on_behind_damage_from_crash_to_crash(tmp_path, number):
    box = small_log(tmp_path)
    box.drop()
    damage(box.segment_paths()[0], number)
    log = box.open(clean=False)
    append(log, b"next")
    append(box.crash(), b"more")

    batches, damaged = read_batches(box.restart())

    assert damaged == [(2 * number, 2 * number + 2)]
    assert sorted(batches) == sorted({0, 2, 4, 6, 8, 10, 11} - {2 * number})


def test_reading_at_damage_says_which_offsets_are_lost(tmp_path):
    box = small_log(tmp_path)
    box.drop()
    damage(box.segment_paths()[0], 2)
    log = box.open(clean=False)

    assert read_batches(log, limit=4)[1] == []
    assert log.read(0, 1 << 20, limit=10).corrupt
    with pytest.raises(CorruptRange, match="offsets 4 to 5 are damaged on disk") as caught:
        log.read(5, 1 << 20, limit=10)
    assert (caught.value.first_offset, caught.value.next_offset) == (4, 6)
    assert sorted(read_batches(log, 6)[0]) == [6, 8]


def test_damage_stays_in_the_file(tmp_path):
    box = small_log(tmp_path)
    box.drop()
    damage(box.segment_paths()[0], 2)
    before = box.segment_paths()[0].read_bytes()

    log = box.open(clean=False)
    log.close()

    assert box.segment_paths()[0].read_bytes() == before


def test_damage_is_remembered_over_a_clean_stop(tmp_path):
    box = small_log(tmp_path)
    box.drop()
    damage(box.segment_paths()[0], 2)
    box.open(clean=False)

    log = box.restart()

    assert read_batches(log)[1] == [(4, 6)]
    assert sorted(read_batches(log)[0]) == [0, 2, 6, 8]


def test_several_damaged_batches_in_a_row_are_one_range(tmp_path):
    box = small_log(tmp_path)
    box.drop()
    for number in (1, 2, 3):
        damage(box.segment_paths()[0], number)

    log = box.open(clean=False)

    assert read_batches(log)[1] == [(2, 8)]
    assert sorted(read_batches(log)[0]) == [0, 8]


def test_a_first_batch_that_is_damaged_is_a_range_of_its_own(tmp_path):
    box = small_log(tmp_path)
    box.drop()
    damage(box.segment_paths()[0], 0)

    log = box.open(clean=False)

    assert read_batches(log)[1] == [(0, 2)]
    assert log.start_offset == 0


def test_damage_at_the_end_of_a_sealed_segment_reaches_to_the_next(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(10):
        append(log, b"x" * 300)
    box.drop()
    first = box.segment_paths()[0]
    last_of_first = len(contents(first)) - 1
    damage(first, last_of_first)

    log = box.open(clean=False)

    assert read_batches(log)[1] == [(last_of_first, last_of_first + 1)]
    assert len(read_batches(log)[0]) == 9


def test_damage_in_a_segment_that_was_synced_is_found_when_it_is_read(box):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(10):
        append(log, b"x" * 300)
    log.close()
    box.drop()
    damage(box.segment_paths()[1], 1)

    log = box.open(clean=True)
    batches, damaged = read_batches(log)

    assert (len(batches), len(damaged)) == (9, 1)
    assert read_batches(box.restart())[1] == damaged


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_that_vanished_is_missed(box, is_clean):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(10):
        append(log, b"x" * 300)
        box.settle()
    if is_clean:
        log.close()
    box.drop()
    lost = box.segment_paths()[1]
    first, end = int(lost.stem), int(box.segment_paths()[2].stem)
    lost.unlink()

    log = box.open(clean=is_clean)

    assert read_batches(log)[1] == [(first, end)]
    assert log.end_offset == 10


def test_a_record_that_holds_a_batch_is_not_taken_for_one_when_its_own_batch_is_damaged(box, log):
    inner = make_batch(b"stolen")
    append(log, b"a")
    append(log, bytes(inner) * 3)
    append(log, b"c")
    box.drop()
    damage(box.segment_paths()[0], 1)

    log = box.open(clean=False)

    assert sorted(read_batches(log)[0]) == [0, 2]


def test_the_high_watermark_never_falls_below_what_a_checkpoint_knows(box, log):
    for _ in range(5):
        append(log, b"a")
    box.settle()
    log.checkpoint()
    box.drop()
    os.truncate(box.segment_paths()[0], 10)

    log = box.open(clean=False)

    assert (log.high_watermark, log.end_offset) == (5, 5)
    assert read_batches(log) == ({}, [(0, 5)])


def test_a_log_start_made_durable_elsewhere_counts(box, log):
    for _ in range(5):
        append(log, b"a")

    assert box.crash(start_offset_min=3).start_offset == 3


def test_offsets_that_were_deleted_and_lost_are_not_given_again(box, log):
    for _ in range(5):
        append(log, b"a")
    box.drop()
    os.truncate(box.segment_paths()[0], 0)

    log = box.open(clean=False, start_offset_min=4)

    assert (log.start_offset, log.end_offset) == (4, 4)
    assert append(log, b"b") == 4
    assert read_values(box.crash(start_offset_min=4)) == [b"b"]


def damage(path, number):
    """Flip a bit in a segment's batch."""
    position, batch = contents(path)[number]
    content = bytearray(path.read_bytes())
    content[position + len(batch) - 2] ^= 0x10
    overwrite(path, content)


def test_damage_found_late_takes_no_new_records_along(tmp_path):
    box = small_log(tmp_path)
    box.log.close()
    box.drop()
    damage(box.segment_paths()[0], COUNT - 1)
    log = box.open(clean=True)
    append(log, b"new")
    append(log, b"newer")

    batches, damaged = read_batches(log)

    assert damaged == [(8, 10)]
    assert sorted(batches) == [0, 2, 4, 6, 10, 11]
    assert read_batches(box.crash()) == (batches, damaged)


def test_an_error_of_the_disk_while_opening_names_the_directory(box, log, monkeypatch):
    append(log, b"a")

    def broken(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("millstream.log.writing.fdatasync", broken)
    with pytest.raises(LogIOError, match=r"shop\.orders-0: Input/output error"):
        box.crash()


def test_blocks_the_disk_can_t_read_are_damage(tmp_path, monkeypatch):
    box = Box(tmp_path)
    log = box.open()
    for number in range(6):
        append(log, b"%d" % number * 20_000)
    box.drop()

    class BadBlocks:
        def __getattr__(self, name):
            return getattr(os, name)

        def pread(self, fd, size, position):
            if position < 50_000 < position + size:
                raise OSError(errno.EIO, "Input/output error")
            return os.pread(fd, size, position)

    monkeypatch.setattr("millstream.log.scan.os", BadBlocks())
    log = box.open(clean=False)

    assert read_batches(log)[1] == [(2, 3)]
    assert sorted(read_batches(log)[0]) == [0, 1, 3, 4, 5]


def test_a_segment_that_somebody_wrote_to_is_scanned_though_its_size_is_the_same(box, monkeypatch):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    for _ in range(10):
        append(log, b"x" * 300)
    log.close()
    path = box.segment_paths()[1]
    os.utime(path, ns=(1, 1))
    scanned = []
    real = recovery.checked_batches

    def spy(*arguments):
        for found in real(*arguments):
            scanned.append(found)
            yield found

    monkeypatch.setattr("millstream.log.recovery.checked_batches", spy)
    log = box.open(clean=True)

    assert [header.base_offset for _, header in scanned] == [int(path.stem), int(path.stem) + 1]
    assert len(read_values(log)) == 10
