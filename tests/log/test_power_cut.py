"""The power fails: of what was not synced, any sector may be missing, and any small file may be an older one."""

import random

import pytest

from millstream.codec.batch import read_header
from tests.log.box import Box, append, append_batch, produced, read_batches

SEEDS = range(60)
SMALL = ("checkpoint.json", "producers.snapshot", "*.index", "*.timeindex")


class PoweredBox(Box):
    """A box on a disk that remembers what was synced."""

    def __init__(self, root, randomness, **overrides):
        super().__init__(root, **overrides)
        self.randomness = randomness
        self.synced = {}
        self.versions = {}
        self.settled = set()
        self.acknowledged = 0

    def sync(self):
        mark = self.log.begin_sync()
        for segment, size in zip(mark.segments, mark.sizes, strict=True):
            self.synced[self.directory / f"{segment.base_offset:020d}.log"] = size
        self.log.end_sync(mark)
        self.log.advance(mark.end_offset)
        self.acknowledged = self.log.high_watermark
        self.remember()

    def remember(self):
        for pattern in SMALL:
            for path in self.directory.glob(pattern):
                self.versions.setdefault(path, self.first_versions(path)).append(path.read_bytes())

    def first_versions(self, path):
        """A file that was made since the power last failed may be missing, or empty."""
        return [] if path in self.settled else [None, b""]

    def cut_the_power(self):
        self.remember()
        self.drop()
        for path in self.segment_paths():
            self.lose_sectors(path, self.synced.get(path, 0))
        for path, versions in self.versions.items():
            version = self.randomness.choice(versions)
            path.unlink(missing_ok=True)
            if version is not None:
                path.write_bytes(version)
        self.versions = {}
        self.settled = set(self.directory.iterdir())
        self.remember()

    def lose_sectors(self, path, synced):
        content = path.read_bytes()
        if len(content) == synced:
            return
        size = self.randomness.randrange(synced, len(content) + 1)
        if not size:
            path.unlink()  # not even its name was synced
            return
        after = bytearray(content[:size])
        for sector in range(synced // 512, size // 512 + 1):
            low, high = max(synced, sector * 512), min(size, sector * 512 + 512)
            if low < high and self.randomness.random() < 0.3:
                after[low:high] = bytes(high - low)
        path.write_bytes(after)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_is_there(tmp_path, seed):
    randomness = random.Random(seed)
    box = PoweredBox(
        tmp_path, randomness, segment_bytes=randomness.choice([1_024, 4_000]), index_interval_bytes=300
    )
    written, safe = {}, set()
    box.open()
    sequence = 0
    for _ in range(3):
        for _ in range(randomness.randrange(1, 25)):
            if randomness.random() < 0.3:
                base = append_batch(box.log, produced(sequence=sequence))
                sequence += 1
            else:
                base = append(box.log, randomness.randbytes(randomness.randrange(1, 700)))
            written[base] = read_batches(box.log, base, limit=box.log.end_offset)[0][base]
            if randomness.random() < 0.3:
                box.sync()
                safe = set(written)
            if randomness.random() < 0.1:
                box.log.checkpoint()
                box.remember()
        box.cut_the_power()

        log = box.open(clean=False)
        batches, _ = read_batches(log)

        assert all(written[base] == batch for base, batch in batches.items())
        assert safe <= set(batches)
        assert log.high_watermark >= box.acknowledged
        # What survived is synced when a log is opened, and served from then on.
        written, safe = dict(batches), set(batches)
        box.synced = {path: path.stat().st_size for path in box.segment_paths()}
        box.acknowledged = log.end_offset
        sent = [header for header in map(read_header, batches.values()) if header.producer_id == 7]
        producer = log.producers.get(7)
        known = [batch.base_offset for batch in producer.batches] if producer else []
        assert known == [header.base_offset for header in sent][len(sent) - len(known) :]
        assert not sent or producer.last_sequence == sent[-1].last_sequence
        sequence = sent[-1].last_sequence + 1 if sent else 0
