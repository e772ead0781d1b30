"""Ask the questions, in interleaved rounds, and show the table.

    python -m benchmarks.run [--rounds N] [--quick] [--write] [names…]

Why interleaved: a machine has good and bad minutes; taking turns gives both sides the same ones.
Invariants: the side that goes first changes with each round; a figure is the median of its rounds. With
`--candidate kafka` Kafka is compared with itself: what those ratios differ from 1 is the noise.
"""

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import consume, fsync, latency, memory_and_start, produce, requests
from benchmarks.measures import QUICK, Question, Results, Row, Size
from benchmarks.peers import Kind, Peer, running_peer
from benchmarks.report import described_machine, markdown, table
from benchmarks.warm_up import warm_up

WITHOUT_SYNC = (
    produce.QUESTION,
    consume.QUESTION,
    latency.QUESTION,
    requests.QUESTION,
    memory_and_start.QUESTION,
)
WITH_SYNC = (fsync.QUESTION,)
DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parsed(arguments)
    # Leave by the front door, so that the brokers that were started are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if options.directory is not None:
        tempfile.tempdir = str(options.directory)
    size = QUICK if options.quick else Size()
    results = Results()
    machine = described_machine()
    for questions, syncs in ((WITHOUT_SYNC, False), (WITH_SYNC, True)):
        wanted = [each for each in questions if not options.names or each.name in options.names]
        if wanted:
            _ask(wanted, size, options.rounds, options.candidate, results, syncs=syncs)
    rows = [row for question in (*WITHOUT_SYNC, *WITH_SYNC) for row in question.rows]
    shown = [row for row in rows if results.medians(row.key) is not None]
    _say("\n" + table(shown, results, options.candidate))
    if options.write:
        DOCUMENT.write_text(markdown(shown, results, machine, rounds=options.rounds))
        _say(f"written: {DOCUMENT}")
    return 1 if options.check and _failed(shown, results) else 0


def _ask(
    questions: Sequence[Question], size: Size, rounds: int, candidate: Kind, results: Results, *, syncs: bool
) -> None:
    with _both(candidate, fsync=syncs) as (kafka, other):
        for peer in (kafka, other):
            _say(f"warming up {_name(peer, other)}")
            warm_up(peer, size)
        for question in questions:
            for peer in (kafka, other):
                question.prepare(peer, size)
            for number in range(rounds):
                turn = (kafka, other) if number % 2 == 0 else (other, kafka)
                for peer in turn:
                    _say(f"{question.name}: round {number + 1} of {rounds}, {_name(peer, other)}")
                    figures = question.measure(peer, size)
                    results.add(is_candidate=peer is other, figures=figures)
            for peer in (kafka, other):
                question.finish(peer)


@contextlib.contextmanager
def _both(candidate: Kind, *, fsync: bool) -> Iterator[tuple[Peer, Peer]]:
    with running_peer("kafka", fsync=fsync) as kafka, running_peer(candidate, fsync=fsync) as other:
        yield kafka, other


def _failed(rows: Sequence[Row], results: Results) -> bool:
    for row in rows:
        medians = results.medians(row.key)
        if medians is not None and row.passes(medians[1], medians[1] / medians[0]) is False:
            return True
    return False


def _name(peer: Peer, candidate: Peer) -> str:
    return f"{peer.kind} (candidate)" if peer is candidate else peer.kind


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [question.name for question in (*WITHOUT_SYNC, *WITH_SYNC)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"questions to ask: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds for each side (default: 5)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything runs")
    parser.add_argument("--candidate", choices=("millstream", "kafka"), default="millstream")
    parser.add_argument("--directory", type=Path, help="where both sides keep their data")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a row misses its bar")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"no question named {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return options


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
