"""Sparse indexes: rows that rise, lookups that round down, files that are checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.log.index import OFFSET_KEY, TIME_KEY, SparseIndex, load_index

ROWS = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=50)


def index_of(rows, key_type=OFFSET_KEY):
    index = SparseIndex(key_type)
    for key, position in rows:
        index.add(key, position)
    return index


@given(rows=ROWS, key=st.integers(0, 2**32 - 1))
def test_a_lookup_finds_the_last_row_that_is_not_above(rows, key):
    index = index_of(rows)
    kept = list(zip(index.keys, index.positions, strict=True))

    assert index.position_at(key) == max((p for k, p in kept if k <= key), default=0)
    assert index.position_below(key) == max((p for k, p in kept if k < key), default=0)
    assert index.boundary_at(key) == max((p for _, p in kept if p <= key), default=0)


@given(rows=ROWS)
def test_rows_always_rise(rows):
    index = index_of(rows)

    assert list(index.keys) == sorted(set(index.keys))
    assert list(index.positions) == sorted(set(index.positions))


def test_the_key_of_a_position_is_known_only_for_rows():
    index = index_of([(5, 100), (9, 200)])

    assert (index.key_at(100), index.key_at(200), index.key_at(150), index.key_at(900)) == (5, 9, None, None)


@pytest.mark.parametrize("key_type", [OFFSET_KEY, TIME_KEY])
def test_a_saved_index_is_loaded_as_it_was(tmp_path, key_type):
    path = str(tmp_path / "x.index")
    index_of([(5, 100), (9, 200)], key_type).save(path, covered=300)

    loaded, covered = load_index(path, key_type)

    assert (list(loaded.keys), list(loaded.positions), covered) == ([5, 9], [100, 200], 300)


def test_an_index_of_another_kind_is_not_loaded(tmp_path):
    path = str(tmp_path / "x.index")
    index_of([(5, 100)]).save(path, covered=300)

    assert load_index(path, TIME_KEY) is None


def test_a_damaged_index_is_never_loaded(tmp_path):
    path = tmp_path / "x.index"
    index_of([(5, 100), (9, 200)]).save(str(path), covered=300)
    content = path.read_bytes()

    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert load_index(str(path), OFFSET_KEY) is None
        path.write_bytes(content[:place])
        assert load_index(str(path), OFFSET_KEY) is None


def test_a_missing_index_is_not_loaded(tmp_path):
    assert load_index(str(tmp_path / "none"), OFFSET_KEY) is None


def test_negative_timestamps_have_a_place():
    index = index_of([(-5, 100), (7, 200)], TIME_KEY)

    assert (index.position_below(-5), index.position_below(0), index.position_below(8)) == (0, 100, 200)
