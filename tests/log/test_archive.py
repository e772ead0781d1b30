"""Expired segments that move elsewhere and stay readable."""

import errno
import os

import pytest

from millstream.log import archive
from tests.log.box import Box, append, overwrite, read_values
from tests.log.test_retention import DAY_MS, expire, fill


def make_box(tmp_path, **overrides):
    return Box(
        tmp_path, segment_bytes=1_200, retention_ms=5_000, millstream_archive_enable="true", **overrides
    )


def archived_bases(box):
    return sorted(int(path.stem) for path in box.archive.glob("*.log"))


@pytest.fixture
def other_device(monkeypatch):
    """Renames into the archive fail, as they do between two disks."""
    real = os.rename

    class TwoDisks:
        def __getattr__(self, name):
            return getattr(os, name)

        def rename(self, source, target):
            if os.path.dirname(source) != os.path.dirname(target):
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            real(source, target)

    monkeypatch.setattr(archive, "os", TwoDisks())


def test_expired_segments_move_to_the_archive(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)

    assert expire(box) == []
    assert archived_bases(box) == [0]
    assert log.start_offset == 0


def test_archived_records_are_read_like_others(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    before = read_values(log)
    box.clock.advance(DAY_MS)
    expire(box)

    assert archived_bases(box) == [0, 3, 6, 9]
    assert read_values(log) == before
    assert (log.start_offset, log.end_offset) == (0, 10)


@pytest.mark.parametrize("reopen", ["crash", "restart"])
def test_the_archive_is_part_of_the_log_after_a_start(tmp_path, reopen):
    box = make_box(tmp_path)
    before = read_values(fill(box))
    box.clock.advance(DAY_MS)
    expire(box)

    log = getattr(box, reopen)()

    assert (log.start_offset, log.end_offset) == (0, 10)
    assert read_values(log) == before
    assert append(log, b"next") == 10


@pytest.mark.parametrize("lost", ["checkpoint.json", "*.index", "*"])
def test_the_archive_is_found_without_anything_else(tmp_path, lost):
    box = make_box(tmp_path)
    before = read_values(fill(box))
    box.clock.advance(DAY_MS)
    expire(box)
    box.drop()
    for path in [*box.directory.glob(lost), *box.archive.glob("*index")]:
        path.unlink()

    log = box.open(clean=False)

    assert read_values(log) == before
    assert append(log, b"next") == 10


def test_damage_in_the_archive_is_found_when_it_is_read(tmp_path):
    box = make_box(tmp_path)
    fill(box)
    expire(box)
    box.log.close()
    path = next(box.archive.glob("*.log"))
    content = bytearray(path.read_bytes())
    content[150] ^= 4
    overwrite(path, content)

    log = box.open(clean=True)

    assert log.read(1, 10_000, limit=10).size > 0
    with pytest.raises(Exception, match="offsets 0 to 0 are damaged"):
        log.read(0, 10_000, limit=10)


def test_the_archive_has_a_retention_of_its_own(tmp_path):
    box = make_box(tmp_path, millstream_archive_retention_ms=DAY_MS)
    log = fill(box)
    expire(box)
    box.clock.advance(DAY_MS - 7_000)
    expire(box)

    assert archived_bases(box) == [3, 6, 9]
    assert log.start_offset == 3


def test_deleting_records_deletes_archived_ones_too(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    box.clock.advance(DAY_MS)
    expire(box)

    log.delete_before(4)
    expire(box)

    assert archived_bases(box) == [3, 6, 9]
    assert read_values(log)[0][:2] == b"04"


def test_destroying_a_log_takes_its_archive_along(tmp_path):
    box = make_box(tmp_path)
    fill(box)
    expire(box)

    doomed = box.log.destroy()

    assert len(doomed) == 2
    assert not box.archive.exists()


def test_another_device_gets_a_copy_first(tmp_path, other_device):
    box = make_box(tmp_path)
    log = fill(box)
    before = read_values(log)
    expire(box)
    (copy,) = log.take_archive_copies()
    while_copying = archived_bases(box)
    copy.run()
    doomed = log.finish_archive_copy(copy)

    assert while_copying == []
    assert archived_bases(box) == [0]
    assert {path.name[:20] for path in doomed} == {f"{0:020d}"}
    assert read_values(log) == before


def test_a_copy_in_progress_is_not_asked_for_again(tmp_path, other_device):
    box = make_box(tmp_path)
    log = fill(box)
    expire(box)
    log.take_archive_copies()
    expire(box)

    assert log.take_archive_copies() == []


def test_copies_are_made_one_after_the_other(tmp_path, other_device):
    box = make_box(tmp_path)
    log = fill(box)
    before = read_values(log)
    box.clock.advance(DAY_MS)
    for _ in range(4):
        expire(box)
        for copy in log.take_archive_copies():
            copy.run()
            log.finish_archive_copy(copy)

    assert archived_bases(box) == [0, 3, 6, 9]
    assert read_values(box.crash()) == before


def test_a_crash_between_copy_and_removal_loses_and_doubles_nothing(tmp_path, other_device):
    box = make_box(tmp_path)
    before = read_values(fill(box))
    expire(box)
    for copy in box.log.take_archive_copies():
        copy.run()

    log = box.crash()

    assert read_values(log) == before


def test_a_copy_that_fails_leaves_the_segment_where_it_is(tmp_path, other_device, monkeypatch):
    box = make_box(tmp_path)
    log = fill(box)
    before = read_values(log)
    expire(box)
    (copy,) = log.take_archive_copies()

    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive.shutil, "copyfileobj", no_room)
    with pytest.raises(OSError, match="No space"):
        copy.run()
    log.abandon_archive_copy(copy)
    monkeypatch.undo()

    assert os.listdir(box.archive) == []
    assert read_values(log) == before
    expire(box)
    assert archived_bases(box) == [0]


def test_switching_the_archive_off_keeps_what_is_there(tmp_path):
    box = make_box(tmp_path)
    log = fill(box)
    expire(box)
    box.reconfigure(segment_bytes=1_200, retention_ms=5_000)
    box.clock.advance(DAY_MS)
    expire(box)

    assert archived_bases(box) == [0]
    assert [value[:2] for value in read_values(log)] == [b"00", b"01", b"02"]
    assert (log.start_offset, log.end_offset) == (0, 10)
