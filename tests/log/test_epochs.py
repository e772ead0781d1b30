"""Which boot wrote which offsets."""

import pytest

from millstream.log.epochs import LeaderEpochs
from tests.log.box import append, read_values

EPOCHS = [(2, 0), (4, 100), (7, 150)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 0)),
        (2, (2, 100)),
        (3, (2, 100)),
        (4, (4, 150)),
        (6, (4, 150)),
        (7, (7, 200)),
        (8, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_starts(asked, answer):
    assert LeaderEpochs(EPOCHS).end_of(asked, 200) == answer


def test_a_log_without_epochs_knows_none():
    assert LeaderEpochs().end_of(0, 0) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (99, 2), (100, 4), (149, 4), (150, 7), (10**9, 7)])
def test_each_offset_has_the_epoch_that_wrote_it(offset, epoch):
    assert LeaderEpochs(EPOCHS).epoch_of(offset) == epoch


def test_an_epoch_that_wrote_nothing_makes_way():
    epochs = LeaderEpochs(EPOCHS)
    epochs.assign(8, 150)

    assert list(epochs) == [(2, 0), (4, 100), (8, 150)]


def test_epochs_never_go_backwards():
    epochs = LeaderEpochs(EPOCHS)
    epochs.assign(5, 300)
    epochs.assign(7, 300)

    assert list(epochs) == EPOCHS


def test_a_log_that_starts_later_keeps_the_epoch_of_its_start():
    epochs = LeaderEpochs(EPOCHS)
    epochs.drop_before(120)

    assert list(epochs) == [(4, 120), (7, 150)]


def test_a_log_that_was_cut_forgets_the_epochs_behind():
    epochs = LeaderEpochs(EPOCHS)
    epochs.drop_from(150)

    assert list(epochs) == [(2, 0), (4, 100)]


def test_every_boot_writes_its_own_epoch(box):
    append(box.open(), b"a")
    append(box.crash(), b"b")
    box.restart()
    log = box.restart()
    append(log, b"c")

    assert list(log.epochs) == [(1, 0), (2, 1), (4, 2)]
    assert [log.epoch_end(epoch) for epoch in (1, 2, 3, 4, 5)] == [(1, 1), (2, 2), (2, 2), (4, 3), (-1, -1)]


def test_epochs_are_derived_when_nothing_else_is_left(box):
    append(box.open(), b"a")
    append(box.crash(), b"b")
    box.drop()
    (box.directory / "checkpoint.json").unlink()

    log = box.open(clean=False)

    assert list(log.epochs) == [(1, 0), (2, 1), (3, 2)]


def test_a_boot_count_that_was_lost_does_not_take_epochs_backwards(box):
    append(box.open(leader_epoch=9), b"a")

    log = box.crash(leader_epoch=1)
    append(log, b"b")

    assert (log.leader_epoch, log.epoch_of(1)) == (9, 9)


def test_a_boot_count_and_a_checkpoint_that_were_lost_harm_no_record(box):
    append(box.open(leader_epoch=9), b"a")
    box.drop()
    (box.directory / "checkpoint.json").unlink()

    log = box.open(clean=False, leader_epoch=1)

    assert read_values(log) == [b"a"]
    assert log.leader_epoch == 9
