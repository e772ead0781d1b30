"""Power cuts: what the disk held at some moment is all there is, and everything acknowledged by then is in it.

Why: a killed process leaves the page cache behind, so kill -9 can't find a missing fsync. Here the node writes to a
file system in a file; its image is copied while the node stands still, which leaves out everything that was not
synced; a second node is started on the copy.
Some of what was not synced may reach a disk all the same, in any order: so before a copy some files, chosen by
chance, are synced from outside.
"""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from millstream.testing.checker import check
from millstream.testing.history import History, read_history
from tests.faults.asking import Asking
from tests.faults.script import SETTINGS, Script, read_back
from tests.faults.tools import mounted, needs_root
from tests.support.waiting import eventually

pytestmark = [
    needs_root,
    pytest.mark.skipif(
        shutil.which("mkfs.ext4") is None,
        reason="POWER CUTS ARE NOT TESTED: no `mkfs.ext4`; e2fsprogs brings it",
    ),
]

IMAGE_BYTES = 48 << 20
CUTS = 4
ROUNDS = int(os.environ.get("POWER_CUT_ROUNDS", "1"))
"""More of them, with other seeds, for whoever has the time."""


def make_image(path):
    with path.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(path)], check=True)
    return path


class Machine:
    """A node on a disk of its own, with a client at work."""

    def __init__(self, tmp_path, make_node, **settings):
        self.directory = tmp_path
        self.image = make_image(tmp_path / "disk.img")
        self.place = tmp_path / "disk"
        self._make_node = make_node
        self._settings = {**SETTINGS, "log.disk.reserve.bytes": "0", **settings}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self):
        self.node = self._make_node(self._settings, data=self.place / "data")
        self.node.start()
        self.script = Script(self.node.bootstrap_servers, self.directory / "history.jsonl")
        assert self.script.prepare()
        self._thread.start()

    def _work(self):
        self.script.run(self._over.is_set)

    def stop(self):
        self._over.set()
        self._thread.join()
        self.script.close()
        self.node.kill()

    def cut(self, number, chance, *, syncs):
        """What a power cut at this moment would leave, and what had been promised until then."""
        image, history = self.directory / f"cut-{number}.img", self.directory / f"cut-{number}.jsonl"
        self.node.signal(signal.SIGSTOP)
        turns = self.script.turns
        self._wait_until_quiet()
        for path in chance.sample(sorted(self.place.rglob("*")), k=syncs):
            sync(path)
        self._wait_until_quiet()
        self.script.history.copy_to(history)
        shutil.copyfile(self.image, image)
        self.node.signal(signal.SIGCONT)
        return image, history, turns

    def _wait_until_quiet(self):
        """Until what the stopped process had asked of the disk is done."""
        device = subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", str(self.place)], capture_output=True, text=True, check=True
        ).stdout.strip()
        counters = Path(f"/sys/block/{Path(device).name}/stat")
        seen = [counters.read_text()]

        def is_quiet():
            seen.append(counters.read_text())
            return seen[-1] == seen[-2]

        time.sleep(0.01)
        eventually(is_quiet, every_s=0.01)


def sync(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    os.fsync(fd)
    os.close(fd)


def verdict_on(machine, make_node, cut):
    """Start a node on the copied disk and compare what it has with what was promised."""
    image, path, turns = cut
    with mounted(machine.directory / image.stem, "-o", "loop", str(image)) as place:
        node = make_node({"auto.create.topics.enable": "false"}, data=place / "data")
        try:
            node.start()
            history = History(path, append=True)
            with Asking(node.bootstrap_servers, history, "after") as client:
                read_back(client, history, turns)
            history.close()
        finally:
            node.kill()
    return check(read_history(path))


@pytest.mark.parametrize("seed", range(5, 5 + ROUNDS))
def test_nothing_acknowledged_is_lost_in_a_power_cut(tmp_path, make_node, seed):
    chance = random.Random(seed)
    machine = Machine(tmp_path, make_node)
    with mounted(machine.place, "-o", "loop", str(machine.image)):
        machine.start()
        try:
            cuts = []
            for number in range(CUTS):
                time.sleep(chance.uniform(0.3, 1.0))
                cuts.append(machine.cut(number, chance, syncs=chance.choice([0, 1, 3, 8])))
        finally:
            machine.stop()

    for cut in cuts:
        verdict = verdict_on(machine, make_node, cut)
        assert verdict.is_valid, verdict.describe()
        assert verdict.counts["produce/ok"] > 0


def test_these_power_cuts_find_a_missing_fsync(tmp_path, make_node):
    machine = Machine(tmp_path, make_node, **{"log.fsync": "os"})
    with mounted(machine.place, "-o", "loop", str(machine.image)):
        machine.start()
        try:
            eventually(lambda: machine.script.turns > 20)
            cut = machine.cut(0, random.Random(0), syncs=0)
        finally:
            machine.stop()

    assert verdict_on(machine, make_node, cut).kinds & {"lost", "topic-lost", "commit-lost"}
