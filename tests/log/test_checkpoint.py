"""Small state that is either whole or not there."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.checkpoint import (
    CHECKPOINT_NAME,
    SNAPSHOT_NAME,
    Checkpoint,
    DamageEntry,
    ProducerEntry,
    SegmentEntry,
    Snapshot,
    load_checkpoint,
    load_snapshot,
    save_checkpoint,
    save_snapshot,
)

CHECKPOINT = Checkpoint(
    start_offset=3,
    end_offset=90,
    recovery_point=80,
    epochs=((1, 0), (4, 50)),
    segments=(
        SegmentEntry(
            base_offset=0,
            next_offset=90,
            size=4_000,
            max_timestamp=7,
            max_timestamp_offset=6,
            first_append_ms=5,
            damaged=(DamageEntry(10, 20, 3, 4),),
        ),
    ),
)
SNAPSHOT = Snapshot(end_offset=90, recovery_point=80, producers=(ProducerEntry(7, 0, 5, ((0, 2, 3, 6),)),))


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    save_checkpoint(str(tmp_path), CHECKPOINT)

    assert load_checkpoint(str(tmp_path)) == CHECKPOINT


def test_a_snapshot_is_read_as_it_was_written(tmp_path):
    save_snapshot(str(tmp_path), SNAPSHOT)

    assert load_snapshot(str(tmp_path)) == SNAPSHOT


def test_what_is_missing_is_none(tmp_path):
    assert (load_checkpoint(str(tmp_path)), load_snapshot(str(tmp_path))) == (None, None)


def test_a_damaged_checkpoint_is_none(tmp_path):
    save_checkpoint(str(tmp_path), CHECKPOINT)
    path = tmp_path / CHECKPOINT_NAME
    content = path.read_bytes()

    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert load_checkpoint(str(tmp_path)) is None
        path.write_bytes(content[:place])
        assert load_checkpoint(str(tmp_path)) is None


@given(content=st.binary(max_size=200))
def test_garbage_is_none(tmp_path_factory, content):
    directory = tmp_path_factory.mktemp("garbage")
    (directory / CHECKPOINT_NAME).write_bytes(content)
    (directory / SNAPSHOT_NAME).write_bytes(content)

    assert (load_checkpoint(str(directory)), load_snapshot(str(directory))) == (None, None)
