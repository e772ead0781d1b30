"""Walking bytes that can't be trusted."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.codec.batch import assign, read_header
from millstream.log import scan
from millstream.log.epochs import LeaderEpochs
from millstream.log.scan import ChunkReader, Expectations, checked_batches
from millstream.log.segment import Damage
from tests.log.box import make_batch


def batch_at(offset, *values, epoch=1):
    batch = make_batch(*values)
    assign(batch, 0, base_offset=offset, leader_epoch=epoch)
    return bytes(batch)


def walk(tmp_path, content, *, offset=0, **expectations):
    path = tmp_path / "segment"
    path.write_bytes(content)
    expect = Expectations(**{"has_gaps": False, "epoch_max": 9, **expectations})
    with path.open("rb") as file:
        found = list(checked_batches(ChunkReader(file.fileno(), len(content)), 0, offset, expect))
    return [item if isinstance(item, Damage) else item[1].base_offset for item in found]


def test_batches_in_order_are_all_found(tmp_path):
    content = b"".join(batch_at(offset, b"x" * offset) for offset in range(50))

    assert walk(tmp_path, content) == list(range(50))


@pytest.mark.parametrize("chunk_bytes", [61, 100, 200, 333])
def test_a_small_buffer_changes_nothing(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(scan, "CHUNK_BYTES", chunk_bytes)
    parts = [batch_at(offset, b"x" * offset * 3) for offset in range(50)]
    parts[20] = bytes(len(parts[20]))
    position = sum(map(len, parts[:20]))

    assert walk(tmp_path, b"".join(parts)) == [
        *range(20),
        Damage(position, position + len(parts[20]), 20, 21),
        *range(21, 50),
    ]


def test_a_gap_is_damage_unless_compaction_may_have_made_it(tmp_path):
    content = batch_at(0, b"a") + batch_at(5, b"b") + batch_at(6, b"c")
    size = len(batch_at(0, b"a"))

    assert walk(tmp_path, content, has_gaps=True) == [0, 5, 6]
    assert walk(tmp_path, content) == [0, Damage(size, 2 * size, 1, 6), 6]


def test_an_offset_that_its_successors_contradict_is_damage(tmp_path):
    parts = [batch_at(offset, b"x") for offset in (0, 1 + 2**20, 2, 3)]
    size = len(parts[0])

    assert walk(tmp_path, b"".join(parts), has_gaps=True) == [0, Damage(size, 2 * size, 1, 2), 2, 3]


def test_an_epoch_that_its_successors_contradict_is_damage(tmp_path):
    parts = [batch_at(offset, b"x", epoch=epoch) for offset, epoch in enumerate([2, 6, 2, 3])]
    size = len(parts[0])

    assert walk(tmp_path, b"".join(parts)) == [0, Damage(size, 2 * size, 1, 2), 2, 3]


def test_an_epoch_that_is_known_otherwise_is_damage(tmp_path):
    parts = [batch_at(offset, b"x", epoch=epoch) for offset, epoch in enumerate([2, 2, 2, 3])]
    size = len(parts[0])
    known = LeaderEpochs([(2, 0), (4, 3)])

    found = walk(tmp_path, b"".join(parts), epochs=known, epochs_until=4)

    assert found == [0, 1, 2, Damage(3 * size, 4 * size, 3, -1)]


def test_an_epoch_from_the_future_is_damage(tmp_path):
    content = batch_at(0, b"a", epoch=3)

    assert walk(tmp_path, content, epoch_max=2) == [Damage(0, len(content), 0, -1)]


def test_a_batch_beyond_the_next_segment_is_damage(tmp_path):
    content = batch_at(0, b"a", b"b", b"c")

    assert walk(tmp_path, content, offset_max=2) == [Damage(0, len(content), 0, -1)]


@settings(max_examples=200, deadline=None)
@given(garbage=st.binary(max_size=400), seed=st.integers(0, 10**6))
def test_whatever_the_bytes_are_every_one_is_accounted_for(tmp_path_factory, garbage, seed):
    randomness = random.Random(seed)
    parts = [batch_at(offset, randomness.randbytes(30)) for offset in range(4)]
    parts.insert(randomness.randrange(5), garbage)
    content = b"".join(parts)
    path = tmp_path_factory.mktemp("scan") / "segment"
    path.write_bytes(content)
    expect = Expectations(has_gaps=False, epoch_max=9)

    position = 0
    with path.open("rb") as file:
        for found in checked_batches(ChunkReader(file.fileno(), len(content)), 0, 0, expect):
            assert found[0] == position
            position = found.end if isinstance(found, Damage) else position + found[1].size
    assert position == len(content)


def test_a_wrong_length_costs_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "CHUNK_BYTES", 1_000)
    sizes = []
    real = ChunkReader._read
    monkeypatch.setattr(
        ChunkReader, "_read", lambda self, at, size: sizes.append(size) or real(self, at, size)
    )
    content = bytearray(b"".join(batch_at(offset, b"x" * 500) for offset in range(200)))
    content[8:12] = (90_000).to_bytes(4, "big")

    found = walk(tmp_path, bytes(content))

    assert found[1:] == list(range(1, 200))
    assert max(sizes) <= 1_000


def test_the_header_is_read_as_the_codec_reads_it(tmp_path):
    content = batch_at(0, b"a", b"b")
    path = tmp_path / "segment"
    path.write_bytes(content)
    with path.open("rb") as file:
        reader = ChunkReader(file.fileno(), len(content))
        ((_, header),) = checked_batches(reader, 0, 0, Expectations(has_gaps=False, epoch_max=9))

    assert header == read_header(content)
