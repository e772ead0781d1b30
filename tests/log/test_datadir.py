"""Who owns a data directory, who it is, and whether it was left in order."""

import errno
import os
import subprocess
import sys

import pytest

from millstream.log import datadir
from millstream.log.datadir import DataDirectory, SpaceReserve
from millstream.log.errors import DirectoryLocked, DirectoryUnusable


def test_a_new_directory_is_made_and_was_not_clean(tmp_path):
    directory = DataDirectory.open(tmp_path / "a" / "b")

    assert (directory.was_clean, directory.leader_epoch, len(directory.cluster_id)) == (False, 1, 22)
    assert directory.topics.is_dir()
    assert directory.archive.is_dir()


def test_every_boot_is_counted_and_the_cluster_stays(tmp_path):
    first = DataDirectory.open(tmp_path)
    first.close()
    second = DataDirectory.open(tmp_path)

    assert (second.leader_epoch, second.cluster_id) == (2, first.cluster_id)


def test_a_clean_stop_is_known_once(tmp_path):
    first = DataDirectory.open(tmp_path)
    first.mark_clean()
    first.close()
    second = DataDirectory.open(tmp_path)
    second.close()
    third = DataDirectory.open(tmp_path)

    assert (second.was_clean, third.was_clean) == (True, False)


def test_the_marker_is_gone_before_anything_can_be_written(tmp_path):
    first = DataDirectory.open(tmp_path)
    first.mark_clean()
    first.close()
    DataDirectory.open(tmp_path)

    assert not (tmp_path / "clean").exists()


def test_a_second_node_is_refused_and_told_who_is_there(tmp_path):
    DataDirectory.open(tmp_path)
    code = (
        "import sys; from pathlib import Path; from millstream.log.datadir import DataDirectory\n"
        "try: DataDirectory.open(Path(sys.argv[1]))\n"
        "except Exception as error: sys.stdout.write(f'{type(error).__name__}: {error}')"
    )

    said = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)

    assert said.stdout.startswith("DirectoryLocked: ")
    assert f"process {os.getpid()}" in said.stdout


def test_a_second_opening_in_the_same_process_is_refused_too(tmp_path):
    DataDirectory.open(tmp_path)

    with pytest.raises(DirectoryLocked):
        DataDirectory.open(tmp_path)


def test_the_lock_ends_with_its_owner(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from millstream.log.datadir import DataDirectory\n"
        "DataDirectory.open(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)

    assert DataDirectory.open(tmp_path).leader_epoch == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"garbage", b'{"cluster_id": "x", "boot_count": 5}'])
def test_an_identity_that_can_t_be_trusted_is_taken_from_its_copy_or_made_anew(tmp_path, content):
    first = DataDirectory.open(tmp_path)
    first.close()
    (tmp_path / "node.json").write_bytes(content)
    second = DataDirectory.open(tmp_path)
    second.close()
    (tmp_path / "node.json").write_bytes(content)
    (tmp_path / "node.copy.json").write_bytes(content)
    third = DataDirectory.open(tmp_path, make_cluster_id=lambda: "fresh")

    assert (second.cluster_id, second.leader_epoch) == (first.cluster_id, 2)
    assert third.cluster_id == "fresh"


def test_a_path_that_is_a_file_is_refused_with_a_reason(tmp_path):
    (tmp_path / "file").write_text("mine")

    with pytest.raises(DirectoryUnusable, match="Check that it is a directory"):
        DataDirectory.open(tmp_path / "file")


def test_deleted_partitions_that_were_left_behind_are_listed(tmp_path):
    directory = DataDirectory.open(tmp_path)
    (directory.topics / "orders-0.3-17.deleted").mkdir()
    (directory.topics / "orders-0").mkdir()

    assert [path.name for path in directory.doomed()] == ["orders-0.3-17.deleted"]


def test_a_reserve_takes_room_and_gives_it_back(tmp_path):
    reserve = SpaceReserve(tmp_path / "reserve", 100_000)
    held = reserve.hold()
    blocks = os.stat(tmp_path / "reserve").st_blocks * 512
    reserve.release()

    assert (held, blocks >= 100_000, reserve.is_held) == (True, True, False)


def test_a_reserve_without_room_is_not_held_and_leaves_no_file(tmp_path):
    reserve = SpaceReserve(tmp_path / "reserve", 1 << 60)

    assert (reserve.hold(), (tmp_path / "reserve").exists()) == (False, False)


def test_a_node_starts_and_stops_on_a_full_disk(tmp_path, monkeypatch):
    DataDirectory.open(tmp_path).close()
    real = datadir.replace_file

    def only_from_the_reserve(*arguments, **options):
        if (tmp_path / "reserve").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **options)

    monkeypatch.setattr(datadir, "replace_file", only_from_the_reserve)
    monkeypatch.setattr(SpaceReserve, "hold", lambda self: False)
    directory = DataDirectory.open(tmp_path)
    directory.mark_clean()
    directory.close()

    assert DataDirectory.open(tmp_path).was_clean


def test_a_full_disk_without_a_reserve_is_a_clear_error(tmp_path, monkeypatch):
    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(datadir, "replace_file", no_room)
    with pytest.raises(DirectoryUnusable, match="No space left on device"):
        DataDirectory.open(tmp_path)
