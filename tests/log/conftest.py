import pytest

from tests.log.box import Box

SYNCS = ("writing.fdatasync", "writing.sync_directory", "partition.sync_directory", "cleaning.sync_directory",
         "inventory.sync_directory", "compaction.sync_directory", "compaction_output.os.fsync")  # fmt: skip


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    made.drop()


@pytest.fixture
def log(box):
    return box.open()


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """Tests that open thousands of logs don't wait for the disk: they read from the page cache anyway.

    What is synced, and when, is tested with a disk of its own in test_flusher.
    """
    for place in SYNCS:
        monkeypatch.setattr(f"millstream.log.{place}", lambda *_: None)
