"""A log is a list, whatever happens to it: compared with one through everything a node does to logs."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millstream.codec.batch import read_header
from millstream.log.errors import OffsetOutOfRange
from tests.log.box import Box, batches_in, make_batch, read_batches

NOW_MS = 1_700_000_000_000


class LogMachine(RuleBasedStateMachine):
    """`batches` is the model: (base offset, next offset, bytes) of everything in the log."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.box = Box(self.root, segment_bytes=2_048, index_interval_bytes=300, retention_ms=100_000)
        self.log = self.box.open()
        self.batches = []
        self.written = []
        """Those that were deleted too: their bytes may still be in the segments."""
        self.start = 0
        self.unsynced_from = 0

    def teardown(self):
        self.box.drop()
        shutil.rmtree(self.root)

    @property
    def end(self):
        return self.batches[-1][1] if self.batches else self.floor

    floor = 0
    """The end offset of a log that has lost all its batches to retention."""

    @rule(sizes=st.lists(st.integers(0, 700), min_size=1, max_size=4), age_ms=st.integers(0, 50_000))
    def append(self, sizes, age_ms):
        # No zeros, so that none are taken for those of a torn write.
        values = [bytes([1 + size % 250]) * size for size in sizes]
        batch = make_batch(*values, timestamp_ms=self.box.clock.now_ms() - age_ms)
        base = self.log.append(batch, read_header(batch))

        assert base == self.end
        self.batches.append((base, base + len(sizes), bytes(batch)))
        self.written.append(self.batches[-1])

    @rule()
    def sync(self):
        self.box.settle()
        self.unsynced_from = self.end

    @rule()
    def roll(self):
        self.log.roll()

    @rule()
    def checkpoint(self):
        self.log.checkpoint()

    @rule(data=st.data(), size_max=st.sampled_from([1, 200, 1_000, 5_000, 1 << 20]))
    def read(self, data, size_max):
        offset = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.sampled_from([self.end, *(b[0] for b in self.batches)]))
        expected = [batch for batch in self.batches if batch[1] > offset and batch[0] < limit]
        found = [content for _, content in batches_in(self.log.read(offset, size_max, limit=limit))]

        assert found == [content for _, _, content in expected[: len(found)]]
        assert bool(found) == (bool(expected) and offset < limit)
        assert len(found) <= 1 or sum(map(len, found)) <= size_max

    @rule(beyond=st.integers(1, 1_000))
    def read_outside(self, beyond):
        with pytest.raises(OffsetOutOfRange):
            self.log.read(self.end + beyond, 1_000, limit=self.end)
        with pytest.raises(OffsetOutOfRange):
            self.log.read(self.start - beyond, 1_000, limit=self.end)

    @rule(data=st.data())
    def delete_before(self, data):
        offset = data.draw(st.integers(self.start, self.log.high_watermark))
        self.log.delete_before(offset)
        self.start = offset
        self.forget()

    @rule(passed_ms=st.integers(0, 80_000))
    def expire(self, passed_ms):
        self.box.clock.advance(passed_ms)
        for path in self.log.expire(self.box.clock.now_ms()):
            path.unlink()

        assert self.start <= self.log.start_offset <= self.log.high_watermark
        dropped = [batch for batch in self.batches if self.start < batch[1] <= self.log.start_offset]
        assert all(batch[1] <= self.log.high_watermark for batch in dropped)
        self.start = self.log.start_offset
        self.forget()

    def forget(self):
        self.floor = max(self.floor, self.end)
        self.batches = [batch for batch in self.batches if batch[1] > self.start]

    @rule()
    def restart(self):
        self.log = self.box.restart()
        self.unsynced_from = self.end

    @rule()
    def crash(self):
        self.log = self.box.crash(start_offset_min=self.start)
        self.unsynced_from = self.end

    @precondition(lambda self: self.batches and self.unsynced_from < self.end)
    @rule(data=st.data(), is_zeroed=st.booleans())
    def crash_with_a_torn_tail(self, data, is_zeroed):
        """The last bytes of the active segment that were not synced are missing, or zeros."""
        active = self.box.segment_paths()[-1]
        base, size = int(active.stem), active.stat().st_size
        unsynced = sum(len(b[2]) for b in self.written if b[0] >= max(base, self.unsynced_from))
        lost = data.draw(st.integers(min(16, unsynced), unsynced))
        self.box.drop()
        os.truncate(active, size - lost)
        if is_zeroed:
            os.truncate(active, size)
        self.written = [b for b, end in self.batch_ends(base) if end <= size - lost]
        self.batches = [b for b in self.batches if b in self.written]
        self.floor = max(base, self.start, *(b[1] for b in self.written))
        self.log = self.box.open(clean=False, start_offset_min=self.start)
        self.unsynced_from = self.end

    def batch_ends(self, base):
        """Each batch, and where it ends in the segment at `base`; 0 for those in earlier ones."""
        position = 0
        for batch in self.written:
            position += len(batch[2]) if batch[0] >= base else 0
            yield batch, position

    @rule(suffix=st.sampled_from([".index", ".timeindex", ".json", ".snapshot"]))
    def crash_and_lose_a_file(self, suffix):
        self.box.drop()
        for path in self.box.directory.glob("*" + suffix):
            path.unlink()
        self.log = self.box.open(clean=False, start_offset_min=self.start)
        self.unsynced_from = self.end

    @invariant()
    def ends_where_the_model_ends(self):
        assert self.log.end_offset == self.end
        assert self.log.start_offset == self.start
        assert self.log.start_offset <= self.log.high_watermark <= self.log.end_offset

    @invariant()
    def holds_what_the_model_holds(self):
        batches, damaged = read_batches(self.log)

        assert damaged == []
        assert list(batches.values()) == [content for _, _, content in self.batches]


TestLogIsAList = LogMachine.TestCase
TestLogIsAList.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
