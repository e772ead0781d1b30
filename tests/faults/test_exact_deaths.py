"""The node dies at an exact step, is started again, and everything acknowledged is there.

Why: a random kill finds the wide windows; the narrow ones (between the two renames of a compaction's swap, between a
topic's record and its directory) have to be aimed at.
"""

import subprocess

import pytest

from millstream.testing.process import NodeDidNotStart, NodeProcess
from tests.faults.script import SETTINGS, Script
from tests.faults.tools import faults, inject, needs_root, needs_shim, needs_strace, small_disk

STEPS = {
    "the boot count is about to be renamed": "rename:node.json:1:1:before",
    "a batch is about to be written": "pwrite:kept-0:21:21:before",
    "a batch was written": "pwrite:kept-0:21:21:after",
    "a batch is about to be synced": "fdatasync:kept-0:21:21:before",
    "a segment was made": "open:kept-0/00000000000000000006.log:1:1:after",
    "a sealed segment's index was renamed": "rename:kept-0/00000000000000000000.index:1:1:after",
    "a checkpoint is about to be renamed": "rename:kept-0/checkpoint.json:2:2:before",
    "a topic's record was written": "pwrite:__cluster_metadata:10:10:after",
    "a deleted topic is about to be set aside": "rename:passing-:1:1:before",
    "a deleted topic was set aside": "rename:passing-:1:1:after",
    "an offset was written": "pwrite:__consumer_offsets:5:5:after",
    "retention has renamed the first file": "rename:short-0/0:3:3:after",
    "an expired file is about to be unlinked": "unlink:.deleted:1:1:before",
    "a segment was archived without its index": "rename:archive/archived-0:1:1:after",
    "a compacted file is about to become a swap": "rename:.swap:1:1:before",
    "a compacted file became a swap": "rename:.swap:1:1:after",
    "the segments it replaces are gone": "rename:.swap:2:2:before",
    "the swap has its name": "rename:.swap:2:2:after",
    "the offsets topic was made": "rename:__consumer_offsets-0/checkpoint.json:1:1:before",
}
ARCHIVE_STEPS = {
    "a segment is half copied": "write:.copying:1:1:after",
    "a segment's copy is complete but has no name": "rename:.log.copying:1:1:before",
    "a segment's copy has its name": "rename:.log.copying:1:1:after",
    "a copied segment was set aside": "rename:archived-0/00000000000000000000.log.deleted:1:1:after",
}
CALLS = [("fdatasync", 30), ("rename", 25)]


def die(node, history):
    """Let a client work until the fault has struck; returns the client, or None if there was no time for one."""
    try:
        node.start()
    except NodeDidNotStart:
        return None
    script = Script(node.bootstrap_servers, history)
    if script.prepare():
        script.run(lambda: not node.is_running)
    try:
        node.wait(30)
    except subprocess.TimeoutExpired:
        node.kill()
        pytest.fail(f"the fault did not strike in {script.turns} turns")
    return script


def check_after_restart(node, script):
    try:
        node.start()
        if script is not None:
            verdict = script.finish()
            assert verdict.is_valid, verdict.describe()
        assert node.stop() == 0
        assert not list(node.data.glob("quarantine/*"))
    finally:
        node.kill()


@needs_shim
@pytest.mark.parametrize("rule", STEPS.values(), ids=STEPS.keys())
def test_nothing_acknowledged_is_lost_when_the_node_dies_as(rule, tmp_path):
    node = NodeProcess(tmp_path / "data", SETTINGS, environment=faults(rule))

    script = die(node, tmp_path / "history.jsonl")

    node.environment = {}
    check_after_restart(node, script)


@needs_shim
@needs_root
@pytest.mark.parametrize("rule", ARCHIVE_STEPS.values(), ids=ARCHIVE_STEPS.keys())
def test_nothing_acknowledged_is_lost_with_an_archive_on_another_disk_as(rule, tmp_path):
    with small_disk(tmp_path / "archive", "16m") as archive:
        settings = {**SETTINGS, "log.dir.archive": str(archive)}
        node = NodeProcess(tmp_path / "data", settings, environment=faults(rule))

        script = die(node, tmp_path / "history.jsonl")

        node.environment = {}
        check_after_restart(node, script)
        assert list(archive.glob("archived-0/*.log"))


@needs_strace
@pytest.mark.parametrize(("call", "when"), CALLS, ids=[f"{call}-{when}" for call, when in CALLS])
def test_nothing_acknowledged_is_lost_when_the_node_dies_at_system_call(call, when, tmp_path):
    node = NodeProcess(tmp_path / "data", SETTINGS, wrapper=inject(call, "signal=SIGKILL", when=str(when)))

    script = die(node, tmp_path / "history.jsonl")

    node.wrapper = []
    check_after_restart(node, script)
