"""kill -9, again and again, under producers, consumers, groups and admin clients.

    python -m tests.faults.torture --minutes 10 --seed 7

Why: what was acknowledged must be there after any crash of the process: the page cache outlives it, so this holds
for acks=1 as for acks=all. (What an fsync is worth, only a power cut can show: test_power_cut.py.)
Invariants: the clients, the kills and their moments follow from the seed, as far as threads allow; each round has
topics of its own and a history of its own, on a data directory that all rounds share.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from millstream.testing.checker import Verdict, check
from millstream.testing.history import History, read_history
from millstream.testing.process import NodeProcess
from tests.faults.asking import Asking
from tests.faults.workload import Crew, caretaker, group_member, prober, putter, reader, writer
from tests.support.raw_groups import committed
from tests.support.waiting import eventually

PARTITIONS = 3
ROUND_SECONDS = 30.0
CATCH_UP_SECONDS = 180.0
FSYNC_MODES = ("os", "always", "interval")

SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "150",
    "log.cleaner.backoff.ms": "150",
    "offsets.topic.num.partitions": "2",
    "group.min.session.timeout.ms": "1000",
}
SMALL = {"segment.bytes": "32768", "file.delete.delay.ms": "100"}
ARCHIVED = {**SMALL, "millstream.archive.enable": "true", "retention.bytes": "65536"}
COMPACTED = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "400"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    verdict: Verdict
    kills: int
    problems: tuple[BaseException, ...]
    history: Path


class Torture:
    """One node and its data directory, for as many rounds as one likes."""

    def __init__(self, directory: Path, *, seed: int, settings: dict[str, str] | None = None) -> None:
        self._directory = directory
        self._chance = random.Random(seed)
        self.node = NodeProcess(directory / "data", {**SETTINGS, **(settings or {})})
        self._readers = Crew()

    def round(self, number: int, seconds: float) -> Round:
        path = self._directory / f"history-{number}.jsonl"
        history = History(path)
        crew = Crew()
        topics = {kind: f"{kind}-{number}" for kind in ("kept", "shrinking", "table")}
        self.node.settings["log.fsync"] = FSYNC_MODES[number % len(FSYNC_MODES)]  # from the next start on
        if not self.node.is_running:
            self.node.start()
        try:
            self._make_topics(topics, history)
            self._hire(crew, history, topics, number)
            kills = self._torment(history, time.monotonic() + seconds)
            self._settle(crew, history, topics, number)
        finally:
            crew.dismiss()
            self._readers.dismiss()
            history.close()
        return Round(
            verdict=check(read_history(path)), kills=kills, problems=tuple(crew.problems), history=path
        )

    def _make_topics(self, topics: dict[str, str], history: History) -> None:
        with Asking(self.node.bootstrap_servers, history, "setup") as client:
            assert client.create_topic(topics["kept"], partitions=PARTITIONS, config=ARCHIVED)
            assert client.create_topic(topics["shrinking"], config=SMALL)
            assert client.create_topic(topics["table"], config=COMPACTED)

    def _hire(self, crew: Crew, history: History, topics: dict[str, str], number: int) -> None:
        address, stop, kept = self.node.bootstrap_servers, crew.stop, topics["kept"]
        for name, acks, idempotent in (("exact", -1, True), ("plain", -1, False), ("quick", 1, False)):
            crew.hire(
                writer(
                    address, history, stop, name=f"{name}{number}", topic=kept, partitions=PARTITIONS,
                    acks=acks, idempotent=idempotent,
                ),
                name,
            )  # fmt: skip
        cut = {"name": f"cut{number}", "topic": topics["shrinking"], "partitions": 1}
        crew.hire(writer(address, history, stop, **cut, acks=-1, idempotent=True), "cut")  # type: ignore[arg-type]
        crew.hire(
            putter(address, history, stop, name=f"put{number}", topic=topics["table"], keys=20), "putter"
        )
        self._readers = Crew()
        seen = self._readers.stop
        self._readers.hire(
            reader(address, history, seen, name=f"reader{number}", topic=kept, partitions=PARTITIONS),
            "reader",
        )
        for member in ("one", "two"):
            self._readers.hire(
                group_member(
                    address, history, seen, name=f"{member}{number}", group=f"group{number}", topic=kept
                ),
                member,
            )
        crew.hire(caretaker(address, history, stop, shrinking=topics["shrinking"]), "caretaker")
        crew.hire(prober(address, history, stop, topic=kept, partitions=PARTITIONS), "prober")

    def _torment(self, history: History, deadline: float) -> int:
        kills = 0
        chance = self._chance
        while time.monotonic() < deadline:
            time.sleep(chance.uniform(0.3, 2.0))
            if chance.random() < 0.15:
                history.note("nemesis", "stop")
                assert self.node.stop() == 0, self.node.said[-2000:]
            else:
                history.note("nemesis", "kill")
                self.node.signal(signal.SIGKILL)
                self.node.wait()
                kills += 1
            if chance.random() < 0.3:  # and once more while it starts
                self.node.launch()
                time.sleep(chance.uniform(0.0, 0.6))
                self.node.signal(signal.SIGKILL)
                self.node.wait()
                kills += 1
            self.node.start()
        return kills

    def _settle(self, crew: Crew, history: History, topics: dict[str, str], number: int) -> None:
        """Let the clients finish, then read everything there is."""
        crew.dismiss()
        with Asking(self.node.bootstrap_servers, history, "drain") as client:
            group = f"group{number}"
            for partition in range(PARTITIONS):
                eventually(
                    lambda partition=partition: (
                        committed(client.connection, group, topics["kept"], partition)[0]
                        >= client.raw.end_offset(topics["kept"], partition=partition)
                    ),
                    within_s=CATCH_UP_SECONDS,
                )
            self._readers.dismiss()
            crew.problems += self._readers.problems
            for partition in range(PARTITIONS):
                assert client.drain(topics["kept"], partition)
                assert client.committed(group, topics["kept"], partition)
            history.note("drain", "group_done", group=group, topics=[topics["kept"]])
            assert client.drain(topics["shrinking"])
            call = history.invoke("drain", "table", topic=topics["table"])
            call.ok(values={key: value for _, key, value in client.records(topics["table"])})
            history.close()
            self._describe_all(history)

    def _describe_all(self, history: History) -> None:
        """What became of every topic that was ever spoken of."""
        spoken_of = {each["topic"] for each in read_history(history.path) if each.get("topic")}
        again = History(history.path, append=True)
        with Asking(self.node.bootstrap_servers, again, "drain") as client:
            for name in sorted(spoken_of):
                assert client.describe_topic(name)
                if name.startswith("passing-"):
                    client.delete_topic(name)
        again.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="leave data and histories behind")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    directory = Path(tempfile.mkdtemp(prefix="millstream-torture-"))
    say(f"seed {seed}, in {directory}")
    torture = Torture(directory, seed=seed)
    deadline = time.monotonic() + options.minutes * 60
    number = 0
    is_valid = True
    try:
        while is_valid and time.monotonic() < deadline:
            number += 1
            is_valid = False
            result = torture.round(number, min(ROUND_SECONDS, max(5.0, deadline - time.monotonic())))
            is_valid = result.verdict.is_valid and not result.problems
            say(f"round {number}: {result.kills} kills\n{result.verdict.describe()}")
            for problem in result.problems:
                say(f"a client broke: {problem!r}")
    finally:
        torture.node.kill()
        if is_valid and not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    if not is_valid:
        say(f"NOT VALID. Seed {seed}; everything is kept in {directory}")
    return 0 if is_valid else 1


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
