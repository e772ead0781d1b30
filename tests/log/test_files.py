"""Few descriptors, and mapped windows that outlive what they map."""

import errno
import os

import pytest

from millstream.log import files as files_module
from millstream.log.errors import LogIOError, TooManyOpenFiles
from millstream.log.files import WINDOW_BYTES, WINDOWS_KEPT, OpenFiles, SegmentFile, replace_file


@pytest.fixture
def make(tmp_path):
    def make(count, size=10):
        made = []
        for number in range(count):
            path = tmp_path / f"{number}.log"
            path.write_bytes(bytes([number % 256]) * size)
            made.append(SegmentFile(str(path)))
        return made

    return make


def test_no_more_files_are_open_than_allowed(make):
    files = OpenFiles(16)
    for file in make(50):
        files.open(file)

    assert files.open_count == 16


def test_a_closed_file_is_opened_again_when_it_is_needed(make):
    files = OpenFiles(16)
    made = make(50)
    for file in made:
        files.open(file)

    assert os.pread(files.open(made[0]), 1, 0) == b"\x00"
    assert os.pread(files.open(made[49]), 1, 0) == b"\x31"


def test_a_file_in_use_stays_open_longer_than_an_idle_one(make):
    files = OpenFiles(16)
    made = make(40)
    for file in made:
        files.open(file)
        files.open(made[0])

    assert made[0].fd >= 0


def test_a_pinned_file_is_never_closed(make):
    files = OpenFiles(16)
    made = make(50)
    fd = files.pin(made[0])
    for file in made[1:]:
        files.open(file)

    assert made[0].fd == fd
    assert os.pread(fd, 1, 0) == b"\x00"


def test_a_pinned_file_that_is_to_be_closed_closes_when_it_is_let_go(make):
    files = OpenFiles(16)
    (file,) = make(1)
    fd = files.pin(file)
    files.close(file)
    still_open = os.fstat(fd).st_size
    files.unpin(file)

    assert (still_open, file.fd, files.open_count) == (10, -1, 0)


def test_more_pinned_files_than_the_limit_are_allowed(make):
    files = OpenFiles(16)
    made = make(20)
    for file in made:
        files.pin(file)

    assert files.open_count == 20


def test_a_process_without_descriptors_closes_some_and_goes_on(make, monkeypatch):
    files = OpenFiles(1_000)
    made = make(40)
    limit = 30

    class Few:
        def __getattr__(self, name):
            return getattr(os, name)

        def open(self, *arguments):
            if files.open_count >= limit:
                raise OSError(errno.EMFILE, "Too many open files")
            return os.open(*arguments)

    monkeypatch.setattr(files_module, "os", Few())
    for file in made:
        files.open(file)

    assert files.open_count <= limit
    assert files.limit < limit


def test_a_process_whose_descriptors_are_all_in_use_says_so(make, monkeypatch):
    files = OpenFiles(100)
    pinned, other = make(2)
    files.pin(pinned)

    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files_module.os, "open", none_left)
    with pytest.raises(TooManyOpenFiles, match="ulimit"):
        files.open(other)


def test_creating_refuses_a_file_that_holds_something(make):
    (file,) = make(1)

    with pytest.raises(LogIOError, match="exists, though the log doesn't know it"):
        OpenFiles().open(file, create=True)


def test_a_slice_is_the_bytes_of_the_file(make, tmp_path):
    path = tmp_path / "x.log"
    content = os.urandom(3 * WINDOW_BYTES + 100)
    path.write_bytes(content)
    files, file = OpenFiles(), SegmentFile(str(path))
    places = [
        (0, 100),
        (WINDOW_BYTES - 5, WINDOW_BYTES + 5),
        (5, 2 * WINDOW_BYTES),
        (0, len(content)),
        (7, 9),
    ]

    for start, end in places:
        assert bytes(files.slice(file, start, end, len(content))) == content[start:end]


def test_neighbouring_slices_share_a_window(make):
    files = OpenFiles()
    (file,) = make(1, size=100_000)
    slices = [files.slice(file, start, start + 1_000, 100_000) for start in range(0, 100_000, 1_000)]

    assert (len(slices), files.window_count) == (100, 1)


def test_few_windows_are_kept_and_held_ones_stay_valid(make):
    files = OpenFiles()
    made = make(WINDOWS_KEPT + 5, size=10_000)
    held = [files.slice(file, 0, 10_000, 10_000) for file in made]
    alive = files.window_count
    contents = [bytes(view[:1])[0] for view in held]
    held.clear()

    assert (alive, contents) == (WINDOWS_KEPT + 5, list(range(WINDOWS_KEPT + 5)))
    assert files.window_count == WINDOWS_KEPT


def test_too_many_windows_alive_means_copies(make, monkeypatch):
    monkeypatch.setattr(files_module, "WINDOWS_ALIVE_MAX", 3)
    files = OpenFiles()
    held = [files.slice(file, 0, 10_000, 10_000) for file in make(6, size=10_000)]

    assert [bytes(view[:1])[0] for view in held] == list(range(6))
    assert files.window_count == 3


def test_a_copy_that_comes_back_short_is_an_error(make, monkeypatch):
    monkeypatch.setattr(files_module, "WINDOWS_ALIVE_MAX", 0)
    (file,) = make(1)

    with pytest.raises(LogIOError, match="ends before byte 50"):
        OpenFiles().slice(file, 0, 50, 50)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = str(tmp_path / "state.json")
    replace_file(path, b"old", sync=False)
    replace_file(path, b"new", sync=True)

    assert (tmp_path / "state.json").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_replacement_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = str(tmp_path / "state.json")
    replace_file(path, b"old", sync=False)

    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files_module.os, "write", no_room)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new", sync=False)
    monkeypatch.undo()

    assert (tmp_path / "state.json").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.json"]
