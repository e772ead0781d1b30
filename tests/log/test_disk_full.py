"""A disk that can't take a batch: the batch is refused, and nothing else happens."""

import errno
import os
import resource

import pytest

from millstream.log import writing
from millstream.log.errors import DiskFull, LogIOError
from tests.log.box import append, read_values


class FaultyDisk:
    """`os` for the writing module, with a pwrite that takes `room` bytes more and then fails."""

    def __init__(self, room, error):
        self.room = room
        self.error = error

    def __getattr__(self, name):
        return getattr(os, name)

    def pwrite(self, fd, content, position):
        view = memoryview(content)[: self.room]
        if not len(view):
            raise OSError(self.error, os.strerror(self.error))
        self.room -= len(view)
        return os.pwrite(fd, view, position)


@pytest.fixture
def disk(monkeypatch):
    def fail(room, error=errno.ENOSPC):
        monkeypatch.setattr(writing, "os", FaultyDisk(room, error))

    fail.repair = lambda: monkeypatch.setattr(writing, "os", os)
    return fail


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("room", [0, 1, 60, 100])
def test_an_append_without_room_changes_nothing(box, log, disk, room, error):
    append(log, b"a" * 50)
    before = (log.end_offset, log.size_bytes, box.segment_paths()[0].read_bytes())
    disk(room, error)

    with pytest.raises(DiskFull, match=r"shop.orders-0: no room on disk .* Free some space"):
        append(log, b"b" * 50)

    assert (log.end_offset, log.size_bytes, box.segment_paths()[0].read_bytes()) == before
    assert read_values(log) == [b"a" * 50]


def test_appending_goes_on_when_there_is_room_again(box, log, disk):
    append(log, b"a")
    disk(30)
    with pytest.raises(DiskFull):
        append(log, b"refused")
    disk.repair()

    assert append(log, b"b") == 1
    assert read_values(log) == [b"a", b"b"]
    assert read_values(box.crash()) == [b"a", b"b"]


def test_writes_that_come_back_short_are_continued(log, monkeypatch):
    class Slow(FaultyDisk):
        def pwrite(self, fd, content, position):
            return os.pwrite(fd, memoryview(content)[:7], position)

    monkeypatch.setattr(writing, "os", Slow(0, 0))
    append(log, b"a" * 100)

    assert read_values(log) == [b"a" * 100]


def test_the_first_append_of_a_log_can_be_refused_too(box, log, disk):
    disk(10)
    with pytest.raises(DiskFull):
        append(log, b"a")
    disk.repair()

    assert append(log, b"b") == 0
    assert read_values(box.crash()) == [b"b"]


def test_a_roll_without_room_is_refused_and_tried_again(box, monkeypatch):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()
    append(log, b"a" * 800)
    real = box.files.open

    def no_room(file, *, create=False):
        if create:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, create=create)

    monkeypatch.setattr(box.files, "open", no_room)
    with pytest.raises(DiskFull):
        append(log, b"b" * 800)
    monkeypatch.undo()

    assert append(log, b"c" * 800) == 1
    assert len(read_values(log)) == 2


def test_indexes_and_checkpoints_without_room_don_t_matter(box, monkeypatch):
    box.reconfigure(segment_bytes=1_024)
    log = box.open()

    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("millstream.log.index.replace_file", no_room)
    monkeypatch.setattr("millstream.log.checkpoint.replace_file", no_room)
    for _ in range(10):
        append(log, b"a" * 300)
    box.settle()
    monkeypatch.undo()

    assert len(read_values(log)) == 10
    assert len(read_values(box.crash())) == 10


def test_another_error_names_the_file(log, disk):
    append(log, b"a")
    disk(0, errno.EIO)

    with pytest.raises(LogIOError, match=r"00000000000000000000\.log: Input/output error"):
        append(log, b"b")


def test_remains_that_could_not_be_taken_back_are_taken_back_before_the_next_append(box, log, monkeypatch):
    class Broken(FaultyDisk):
        def ftruncate(self, fd, size):
            raise OSError(errno.EIO, "Input/output error")

    append(log, b"a")
    monkeypatch.setattr(writing, "os", Broken(100, errno.ENOSPC))
    with pytest.raises(LogIOError):
        append(log, b"x" * 500)
    monkeypatch.setattr(writing, "os", os)

    append(log, b"b")

    assert box.segment_paths()[0].stat().st_size == log.size_bytes
    assert read_values(box.crash()) == [b"a", b"b"]


def test_a_limit_on_file_size_is_a_full_disk(box, log):
    append(log, b"a" * 1_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, hard))
    try:
        with pytest.raises(DiskFull):
            append(log, b"b" * 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert box.segment_paths()[0].stat().st_size == log.size_bytes
    append(log, b"c" * 1_000)
    assert [value[:1] for value in read_values(box.crash())] == [b"a", b"c"]
