"""Compaction and crashes: what is half done is finished or forgotten, and nobody is left behind to interfere."""

import os
import time
from itertools import count
from pathlib import Path

import pytest

from tests.faults.asking import BROKEN
from tests.faults.tools import faults, needs_shim
from tests.support.batches import Batch, Item
from tests.support.waiting import eventually

SETTINGS = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "50"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1024",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}
KEYS = 4


def put(client, number, *, keys=KEYS, size=20):
    """One record, of always the same size, under one of a few keys."""
    item = Item(key=f"{number % keys:04}".encode(), value=f"{number:0{size}}".encode())
    assert client.raw.produce("table", Batch(items=[item]).encode()).error_code == 0


def put_until_gone(client, node):
    """The last number acknowledged before the node died."""
    last = -1
    for number in range(20_000):
        try:
            put(client, number)
        except BROKEN:
            node.wait()
            return last
        last = number
        time.sleep(0.001)  # let the cleaner have its turn
    pytest.fail("the fault did not strike")


def table(client):
    return {key: int(value) for _, key, value in client.records("table")}


@needs_shim
@pytest.mark.parametrize("swap", [2, 4, 6])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_table_whose_compacted_form_never_changes_its_size_survives_a_death_in_the_swap(
    make_node, ask, swap, moment
):
    node = make_node(SETTINGS, environment=faults(f"rename:.swap:{swap}:{swap}:{moment}"))
    node.start()
    client = ask(node)
    client.create_topic("table", config=COMPACTED)
    last = put_until_gone(client, node)

    node.environment = {}
    node.start()

    found = table(ask(node))
    for number in range(last - KEYS + 1, last + 1):
        assert found[f"{number % KEYS:04}"] >= number


def test_no_compaction_outlives_its_node(make_node, ask):
    node = make_node(SETTINGS)
    node.start()
    client = ask(node)
    client.create_topic("table", config={**COMPACTED, "segment.bytes": "1000000"})
    numbers = count()

    def compacting():
        """Goes on writing, so that there is always something to compact."""
        put(client, next(numbers), keys=10_000, size=2_000)
        return children_of(node.node_pid)

    child = eventually(compacting, every_s=0.001)[0]
    node.signal(9)
    node.wait()

    eventually(lambda: not is_alive(child))


def children_of(pid):
    """Processes that a process has started, by any of its threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_compaction_that_is_killed_is_tried_again(make_node, ask):
    node = make_node(SETTINGS)
    node.start()
    client = ask(node)
    client.create_topic("table", config=COMPACTED)
    put(client, 0)
    for number in range(1, 200):
        put(client, number)
        for child in children_of(node.node_pid)[:1]:
            if number < 60:
                os.kill(child, 9)

    eventually(lambda: len(list(client.records("table"))) < 100)
    assert sorted(table(client).values()) == [196, 197, 198, 199]
