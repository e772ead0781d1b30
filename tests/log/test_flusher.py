"""One group commit for all logs; a high watermark moves only after the sync that covers it."""

import errno
import os
import threading
from queue import SimpleQueue

import pytest

from millstream.log.flusher import Flusher
from millstream.model.topic_config import topic_config
from tests.log.box import NAME, Box, append


class Loop:
    """The thread that owns the logs: runs what other threads schedule, when the test says so."""

    def __init__(self):
        self.calls = SimpleQueue()

    def schedule(self, callback):
        self.calls.put(callback)

    def run_one(self):
        self.calls.get(timeout=10)()

    def run_until(self, condition):
        while not condition():
            self.run_one()


class Disk:
    """fdatasync that can be held, and notes the size of each file at the moment it was synced."""

    def __init__(self):
        self.synced = []
        self.gate = threading.Event()
        self.gate.set()
        self.started = SimpleQueue()
        self.error = None

    def sync(self, fd):
        size = os.fstat(fd).st_size
        self.started.put(fd)
        self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.synced.append((os.readlink(f"/proc/self/fd/{fd}"), size))


class Bench:
    def __init__(self, root, mode="always", interval_ms=1_000):
        self.root = root
        self.loop = Loop()
        self.disk = Disk()
        self.failures = []
        self.boxes = []
        self.flusher = Flusher(
            mode, interval_ms, self.loop.schedule, self.failures.append, sync=self.disk.sync
        )

    def log(self, **overrides):
        box = Box(self.root / str(len(self.boxes)), **overrides)
        self.boxes.append(box)
        return box.open()

    def close(self):
        self.disk.gate.set()
        self.flusher.close()
        for box in self.boxes:
            box.drop()


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def make_bench(tmp_path):
    made = []

    def make(mode, interval_ms=1_000):
        made.append(Bench(tmp_path, mode, interval_ms))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def test_the_high_watermark_waits_for_the_sync(bench):
    log = bench.log()
    bench.disk.gate.clear()
    append(log, b"a")

    bench.flusher.dirty(log)
    bench.disk.started.get(timeout=10)
    before = log.high_watermark
    bench.disk.gate.set()
    bench.loop.run_one()

    assert (before, log.high_watermark) == (0, 1)
    assert bench.disk.synced[0][1] == log.size_bytes


def test_what_is_appended_during_a_sync_waits_for_the_next(bench):
    log = bench.log()
    bench.disk.gate.clear()
    append(log, b"a")
    bench.flusher.dirty(log)
    bench.disk.started.get(timeout=10)
    append(log, b"b")
    bench.flusher.dirty(log)
    bench.disk.gate.set()

    bench.loop.run_one()
    after_first = log.high_watermark
    bench.loop.run_one()

    assert (after_first, log.high_watermark) == (1, 2)
    assert len(bench.disk.synced) == 2


def test_one_round_serves_all_logs_that_wait(bench):
    logs = [bench.log() for _ in range(12)]
    bench.disk.gate.clear()
    append(logs[0], b"a")
    bench.flusher.dirty(logs[0])
    bench.disk.started.get(timeout=10)
    for log in logs[1:]:
        append(log, b"a")
        bench.flusher.dirty(log)
    bench.disk.gate.set()

    bench.loop.run_one()
    bench.loop.run_one()

    assert [log.high_watermark for log in logs] == [1] * 12
    assert bench.flusher.rounds == 2


def test_many_appends_to_one_log_need_one_sync(bench):
    log = bench.log()
    bench.disk.gate.clear()
    append(log, b"a")
    bench.flusher.dirty(log)
    bench.disk.started.get(timeout=10)
    for _ in range(100):
        append(log, b"b")
        bench.flusher.dirty(log)
    bench.disk.gate.set()
    bench.loop.run_until(lambda: log.high_watermark == 101)

    assert len(bench.disk.synced) == 2


def test_a_sealed_segment_is_synced_before_its_successor_counts(bench):
    log = bench.log(segment_bytes=1_024)
    for _ in range(5):
        append(log, b"x" * 400)

    bench.flusher.dirty(log)
    bench.loop.run_one()

    assert log.high_watermark == 5
    assert sorted(os.path.basename(path) for path, _ in bench.disk.synced) == [
        f"{base:020d}.log" for base in (0, 2, 4)
    ]


def test_a_log_already_synced_advances_without_a_round(bench):
    log = bench.log()
    append(log, b"a")
    bench.boxes[0].settle()

    bench.flusher.dirty(log)

    assert (log.high_watermark, bench.disk.synced) == (1, [])


def test_a_failed_sync_is_told_once_and_nothing_advances_any_more(bench):
    first, second = bench.log(), bench.log()
    bench.disk.error = OSError(errno.EIO, "Input/output error")
    append(first, b"a")
    bench.flusher.dirty(first)
    bench.loop.run_one()
    bench.disk.error = None

    append(second, b"a")
    bench.flusher.dirty(second)
    bench.flusher.dirty(first)

    assert [failure.errno for failure in bench.failures] == [errno.EIO]
    assert (first.high_watermark, second.high_watermark) == (0, 0)
    assert bench.disk.synced == []


def test_one_failing_file_keeps_its_whole_round_from_advancing(bench):
    logs = [bench.log() for _ in range(3)]
    bench.disk.gate.clear()
    append(logs[0], b"a")
    bench.flusher.dirty(logs[0])
    bench.disk.started.get(timeout=10)
    for log in logs[1:]:
        append(log, b"a")
        bench.flusher.dirty(log)
    bench.disk.gate.set()
    bench.loop.run_one()
    bench.disk.started.get(timeout=10)
    bench.disk.error = OSError(errno.EIO, "Input/output error")

    # Whatever had been synced by then: the round as a whole either counts or doesn't.
    bench.loop.run_one()

    advanced = [log.high_watermark for log in logs[1:]]
    assert advanced in ([0, 0], [1, 1])
    assert (advanced == [0, 0]) == bool(bench.failures)


def test_a_new_partition_s_directories_are_synced_first(bench, monkeypatch):
    directories = []
    monkeypatch.setattr("millstream.log.flusher.sync_directory", directories.append)
    log = bench.log()
    append(log, b"a")

    bench.flusher.dirty(log)
    bench.loop.run_one()

    assert {str(log.directory), str(log.directory.parent)} <= set(directories)


def test_a_waiter_that_fails_does_not_hold_up_other_logs(bench):
    first, second = bench.log(), bench.log()
    bench.disk.gate.clear()
    append(first, b"a")
    bench.flusher.dirty(first)
    bench.disk.started.get(timeout=10)
    append(first, b"b")
    append(second, b"a")
    bench.flusher.dirty(first)
    bench.flusher.dirty(second)
    bench.disk.gate.set()
    bench.loop.run_one()

    def defect():
        raise ValueError("a defect")

    first.on_advance = defect
    with pytest.raises(ValueError, match="a defect"):
        bench.loop.run_one()

    assert second.high_watermark == 1


def test_an_append_made_while_advancing_starts_the_next_round(bench):
    log = bench.log()
    answers = []

    def answer():
        answers.append(log.high_watermark)
        if len(answers) < 3:
            append(log, b"again")
            bench.flusher.dirty(log)

    log.on_advance = answer
    append(log, b"a")
    bench.flusher.dirty(log)
    bench.loop.run_until(lambda: len(answers) == 3)

    assert answers == [1, 2, 3]


def test_a_log_destroyed_during_its_sync_harms_nobody(bench):
    doomed, other = bench.log(), bench.log()
    bench.disk.gate.clear()
    append(doomed, b"a")
    bench.flusher.dirty(doomed)
    bench.disk.started.get(timeout=10)
    append(doomed, b"b")
    append(other, b"a")
    bench.flusher.dirty(doomed)
    bench.flusher.dirty(other)
    doomed.destroy()
    bench.disk.gate.set()

    bench.loop.run_until(lambda: other.high_watermark == 1)

    assert bench.failures == []
    assert bench.boxes[0].files.open_count == 0


def test_closing_syncs_what_waits(bench):
    log = bench.log()
    bench.disk.gate.clear()
    append(log, b"a")
    bench.flusher.dirty(log)
    bench.disk.started.get(timeout=10)
    append(log, b"b")
    bench.flusher.dirty(log)
    bench.disk.gate.set()

    bench.flusher.close()

    assert log.high_watermark == 2
    assert bench.disk.synced[-1][1] == log.size_bytes


def test_os_mode_advances_at_once_and_never_syncs_the_active_segment(make_bench):
    bench = make_bench("os")
    log = bench.log()
    append(log, b"a")

    bench.flusher.dirty(log)

    assert (log.high_watermark, bench.disk.synced) == (1, [])


def test_os_mode_syncs_sealed_segments_in_the_background(make_bench):
    bench = make_bench("os")
    log = bench.log(segment_bytes=1_024)
    for _ in range(4):
        append(log, b"x" * 400)

    bench.flusher.dirty(log)
    bench.loop.run_one()

    assert [os.path.basename(path) for path, _ in bench.disk.synced] == [f"{0:020d}.log"]
    assert (log.high_watermark, log.recovery_point) == (4, 2)


@pytest.mark.parametrize("mode", ["os", "interval"])
def test_flush_messages_makes_the_high_watermark_wait(make_bench, mode):
    bench = make_bench(mode, interval_ms=10**9)
    log = bench.log(flush_messages=3)
    seen = []
    for _ in range(3):
        append(log, b"a")
        bench.flusher.dirty(log)
        seen.append(log.high_watermark)
    bench.loop.run_one()

    assert (seen, log.high_watermark, log.recovery_point) == ([1, 2, 2], 3, 3)


def test_interval_mode_advances_at_once_and_syncs_later(make_bench):
    bench = make_bench("interval", interval_ms=1)
    log = bench.log()
    append(log, b"a")

    bench.flusher.dirty(log)
    before = (log.high_watermark, log.recovery_point)
    bench.loop.run_until(lambda: log.recovery_point == 1)

    assert before == (1, 0)


def test_flush_ms_syncs_in_time_whatever_the_mode(make_bench):
    bench = make_bench("os")
    log = bench.log(flush_ms=1)
    append(log, b"a")

    bench.flusher.dirty(log)
    bench.loop.run_until(lambda: log.recovery_point == 1)

    assert bench.disk.synced[0][1] == log.size_bytes


def test_more_dirty_logs_than_descriptors_are_synced_in_several_rounds(bench, monkeypatch):
    monkeypatch.setattr("millstream.log.flusher.ROUND_FILES_MAX", 4)
    logs = [bench.log() for _ in range(10)]
    bench.disk.gate.clear()
    append(logs[0], b"a")
    bench.flusher.dirty(logs[0])
    bench.disk.started.get(timeout=10)
    for log in logs[1:]:
        append(log, b"a")
        bench.flusher.dirty(log)
    bench.disk.gate.set()

    bench.loop.run_until(lambda: all(log.high_watermark == 1 for log in logs))

    assert bench.flusher.rounds == 4


def test_settings_of_a_topic_are_looked_at_anew(make_bench):
    bench = make_bench("os")
    log = bench.log()
    append(log, b"a")
    bench.flusher.dirty(log)
    log.config = topic_config({"flush.messages": "1"})
    append(log, b"b")

    bench.flusher.dirty(log)
    bench.loop.run_one()

    assert (log.recovery_point, str(log.topic_partition)) == (2, str(NAME))


def test_a_segment_that_grew_during_its_sync_and_was_sealed_is_synced_again(bench):
    log = bench.log()
    bench.disk.gate.clear()
    append(log, b"a")
    bench.flusher.dirty(log)
    bench.disk.started.get(timeout=10)
    append(log, b"b")
    log.roll()
    append(log, b"c")
    bench.flusher.dirty(log)
    bench.disk.gate.set()
    bench.loop.run_one()
    after_first = (log.high_watermark, log.recovery_point)
    bench.loop.run_one()

    synced = [(os.path.basename(path)[:20], size) for path, size in bench.disk.synced]
    whole = bench.boxes[0].segment_paths()[0].stat().st_size
    assert after_first == (1, 1)
    assert (f"{0:020d}", whole) in synced
    assert (log.high_watermark, log.recovery_point) == (3, 3)
