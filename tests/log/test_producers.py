"""A batch sent twice is stored once."""

import pytest

from millstream.codec.batch import read_header
from millstream.codec.records import ControlKind, control_batch
from millstream.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from millstream.log.producers import Duplicate, ProducerStates
from tests.log.box import NAME, append, append_batch, produced

LAST = 2**31 - 1


def header(**options):
    return read_header(produced(**options))


@pytest.fixture
def states():
    return ProducerStates(NAME)


def test_an_unknown_producer_may_start_anywhere(states):
    assert states.check(header(sequence=40)) is None


def test_the_next_sequence_is_taken(states):
    states.add(header(sequence=0, count=3), 0, 0)

    assert states.check(header(sequence=3)) is None


def test_the_last_five_batches_are_known_again(states):
    for sequence in range(7):
        states.add(header(sequence=sequence), 100 + sequence, 0)

    assert [states.check(header(sequence=sequence)) for sequence in range(2, 7)] == [
        Duplicate(100 + sequence, 101 + sequence) for sequence in range(2, 7)
    ]
    with pytest.raises(OutOfOrderSequence):
        states.check(header(sequence=1))


def test_a_batch_of_another_length_is_not_the_same(states):
    states.add(header(sequence=0, count=3), 0, 0)
    states.add(header(sequence=3), 3, 0)

    with pytest.raises(OutOfOrderSequence):
        states.check(header(sequence=0, count=2))


@pytest.mark.parametrize("sequence", [2, 5, LAST])
def test_a_gap_is_refused(states, sequence):
    states.add(header(sequence=0), 0, 0)

    with pytest.raises(OutOfOrderSequence, match=f"sent sequence {sequence} where 1 comes next"):
        states.check(header(sequence=sequence))


def test_sequences_start_again_behind_the_largest(states):
    states.add(header(sequence=LAST), 0, 0)

    assert states.check(header(sequence=0)) is None


def test_a_batch_may_lie_across_the_largest_sequence(states):
    states.add(header(sequence=LAST - 1, count=4), 0, 0)

    assert states.check(header(sequence=2)) is None
    assert states.check(header(sequence=LAST - 1, count=4)) == Duplicate(0, 4)


def test_an_older_epoch_is_refused(states):
    states.add(header(epoch=3), 0, 0)

    with pytest.raises(InvalidProducerEpoch, match="has epoch 2, but 3 has written already"):
        states.check(header(epoch=2, sequence=1))


def test_a_new_epoch_starts_at_zero(states):
    states.add(header(epoch=3, sequence=9), 0, 0)

    assert states.check(header(epoch=4, sequence=0)) is None
    with pytest.raises(OutOfOrderSequence):
        states.check(header(epoch=4, sequence=10))


def test_a_new_epoch_forgets_the_batches_of_the_old(states):
    states.add(header(epoch=3, sequence=0), 0, 0)
    states.add(header(epoch=4, sequence=0), 1, 0)

    assert states.check(header(epoch=4, sequence=0)) == Duplicate(1, 2)


def test_a_marker_with_a_higher_epoch_fences_the_older(states):
    marker = control_batch(ControlKind.ABORT, producer_id=7, producer_epoch=5, timestamp_ms=0)
    states.add(header(epoch=4, sequence=0), 0, 0)
    states.add(read_header(marker), 1, 0)

    with pytest.raises(InvalidProducerEpoch):
        states.check(header(epoch=4, sequence=1))
    assert states.check(header(epoch=5, sequence=0)) is None


def test_producers_don_t_know_each_other(states):
    states.add(header(producer_id=1, sequence=0), 0, 0)

    assert states.check(header(producer_id=2, sequence=77)) is None


def test_an_idle_producer_is_forgotten(states):
    states.add(header(producer_id=1), 0, 1_000)
    states.add(header(producer_id=2), 1, 5_000)

    states.expire(6_001, 5_000)

    assert [producer.producer_id for producer in states] == [2]


@pytest.mark.parametrize("reopen", ["crash", "restart"])
def test_the_last_five_batches_survive(box, reopen):
    log = box.open()
    for sequence in range(8):
        append_batch(log, produced(sequence=sequence))

    log = getattr(box, reopen)()

    assert [log.producers.check(header(sequence=s)) for s in range(3, 8)] == [
        Duplicate(s, s + 1) for s in range(3, 8)
    ]
    assert log.producers.check(header(sequence=8)) is None


def test_a_snapshot_and_what_came_after_it_are_put_together(box):
    log = box.open()
    for sequence in range(4):
        append_batch(log, produced(sequence=sequence))
    box.settle()
    log.checkpoint()
    append_batch(log, produced(sequence=4))
    append_batch(log, produced(producer_id=9, sequence=0))

    log = box.crash()

    assert log.producers.check(header(sequence=2)) == Duplicate(2, 3)
    assert log.producers.check(header(sequence=4)) == Duplicate(4, 5)
    assert log.producers.check(header(producer_id=9, sequence=0)) == Duplicate(5, 6)


def test_batches_that_were_cut_off_are_forgotten(box):
    log = box.open()
    for sequence in range(3):
        append_batch(log, produced(sequence=sequence))
    log.checkpoint()  # without a sync: the snapshot knows more than is safe
    box.drop()
    path = box.segment_paths()[0]
    path.write_bytes(path.read_bytes()[:-5])

    log = box.open(clean=False)

    assert log.producers.check(header(sequence=1)) == Duplicate(1, 2)
    assert log.producers.check(header(sequence=2)) is None


def test_a_producer_whose_segments_expired_is_still_known(box):
    box.reconfigure(retention_ms=1)
    log = box.open()
    append_batch(log, produced(sequence=0))
    box.settle()
    box.clock.advance(10_000)
    log.expire(box.clock.now_ms())

    log = box.restart()

    assert (log.start_offset, log.end_offset) == (1, 1)
    assert log.producers.check(header(sequence=0)) == Duplicate(0, 1)


def test_a_batch_without_a_producer_leaves_no_state(box):
    log = box.open()
    append(log, b"a")

    assert len(log.producers) == 0


def test_a_producer_all_of_whose_known_batches_were_cut_off_goes_on_where_they_began(states):
    for sequence in range(10):
        states.add(header(sequence=sequence), sequence, 0)

    states.cut(3)

    assert states.check(header(sequence=5)) is None
    with pytest.raises(OutOfOrderSequence):
        states.check(header(sequence=6))
