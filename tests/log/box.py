"""A partition's directory for tests: opened, crashed and opened again."""

import os
import shutil

from millstream.codec.batch import iter_headers, read_header
from millstream.codec.records import Record, decode_records, encode_batch
from millstream.log.errors import CorruptRange
from millstream.log.files import OpenFiles
from millstream.log.partition import PartitionLog
from millstream.model.topic_config import topic_config
from millstream.model.topics import TopicPartition
from millstream.testing.clock import ManualClock

NAME = TopicPartition("shop.orders", 0)


def make_batch(*values, timestamp_ms=1_000, key=b"k", **options):
    """A batch as a producer sends it; values are bytes, records one millisecond apart."""
    records = [Record(i, timestamp_ms + i if timestamp_ms >= 0 else -1, key, v) for i, v in enumerate(values)]
    return encode_batch(records, **options)


def produced(producer_id=7, epoch=0, sequence=0, count=1):
    return make_batch(*[b"x"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def append(log, *values, **options):
    batch = make_batch(*values, **options)
    return log.append(batch, read_header(batch))


def append_batch(log, batch):
    return log.append(batch, read_header(batch))


def batches_in(result):
    found = []
    for buffer in result.buffers:
        view = memoryview(buffer)
        for position, header in iter_headers(view, 0, len(view)):
            found.append((header, bytes(view[position : position + header.size])))
    return found


def read_batches(log, offset=None, *, size_max=1 << 20, limit=None):
    """{base offset: bytes} of every batch that can be read, and the ranges that can't."""
    offset = log.start_offset if offset is None else offset
    limit = log.end_offset if limit is None else limit
    batches, damaged = {}, []
    while offset < limit:
        try:
            result = log.read(offset, size_max, limit=limit)
        except CorruptRange as error:
            damaged.append((error.first_offset, error.next_offset))
            offset = error.next_offset
            continue
        found = batches_in(result)
        if not found:
            break
        for header, content in found:
            assert header.next_offset > offset
            batches[header.base_offset] = content
            offset = header.next_offset
    return batches, damaged


def read_records(log, offset=None):
    batches, damaged = read_batches(log, offset)
    assert damaged == []
    start = log.start_offset if offset is None else offset
    return [r for batch in batches.values() for r in decode_records(batch) if r.offset >= start]


def read_values(log, offset=None):
    return [record.value for record in read_records(log, offset)]


def overwrite(path, content):
    """Change a file as a failing disk does: nothing but its bytes."""
    modified_ns = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(modified_ns, modified_ns))


class Box:
    """One partition's directory, with everything that is handed to its log."""

    def __init__(self, root, **overrides):
        self.root = root
        self.clock = ManualClock()
        self.files = OpenFiles(64)
        self.config = topic_config({name.replace("_", "."): str(value) for name, value in overrides.items()})
        self.epoch = 0
        self.log = None

    @property
    def directory(self):
        return self.root / "topics" / str(NAME)

    @property
    def archive(self):
        return self.root / "archive" / str(NAME)

    def open(self, *, clean=True, **changes):
        self.epoch += 1
        arguments = {
            "topic_partition": NAME,
            "config": self.config,
            "leader_epoch": self.epoch,
            "files": self.files,
            "archive_directory": self.archive,
            "clock": self.clock,
            "was_clean": clean,
        }
        self.log = PartitionLog.open(self.directory, **{**arguments, **changes})
        return self.log

    def reconfigure(self, **overrides):
        self.config = topic_config({name.replace("_", "."): str(value) for name, value in overrides.items()})
        if self.log is not None:
            self.log.config = self.config

    def restart(self, **changes):
        """Stop cleanly and open again."""
        self.log.close()
        return self.open(clean=True, **changes)

    def crash(self, **changes):
        """Lose everything in memory, as kill -9 does, and open again."""
        self.drop()
        return self.open(clean=False, **changes)

    def drop(self):
        self.files.close_all()
        self.files = OpenFiles(64)
        self.log = None

    def settle(self):
        """Everything appended so far is synced, as after a round of the flusher."""
        mark = self.log.begin_sync()
        self.log.end_sync(mark)
        self.log.advance(mark.end_offset)

    def segment_paths(self):
        return sorted(self.directory.glob("*.log"))

    def names(self):
        return sorted(os.listdir(self.directory))

    def snapshot(self):
        """Every file's content and time, to go back to."""
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.directory.iterdir()}

    def go_back(self, snapshot):
        self.drop()
        for path in self.directory.iterdir():
            if path not in snapshot:
                path.unlink()
        for path, (content, modified_ns) in snapshot.items():
            path.write_bytes(content)
            os.utime(path, ns=(modified_ns, modified_ns))

    def copy_to(self, root):
        """The same directory elsewhere, as a disk image would be."""
        twin = Box(root)
        twin.config, twin.epoch = self.config, self.epoch
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return twin
