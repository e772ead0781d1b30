"""The shop: a node, three producers, two groups, a crash in the middle, a replay, a report.

    make demo                                   or: python examples/shop/demo.py --events 200000

Exit code 0 only if every acknowledged event is in the log once, in the order of its key, and was seen by both
groups; 1 if not; 130 after Ctrl-C.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from consumers import GroupMember, replay
from events import CHANNELS, ORDERS, PAYMENTS, TOPICS, shop_events
from ledger import Received, Sent
from producers import ChannelProducer
from progress import NothingMoves, Progress
from report import Replayed, Report, judge, show
from rich.console import Console

from millstream.testing.process import NodeDidNotStart, NodeProcess, node_process

SEED = 8642
EVENTS = 80_000
EVENTS_PER_SECOND = 5_000
BALANCED_MEMBERS = 3
RESTARTS_MAX = 5


class Shop:
    """Everybody who works on the stream, and their books."""

    def __init__(self, bootstrap: str, *, events: int, rate: float) -> None:
        self.sent = Sent()
        self.groups = {
            "billing": Received((ORDERS, PAYMENTS)),
            "audit": Received(tuple(TOPICS)),
        }
        names = [("billing", f"member-{number}") for number in range(1, BALANCED_MEMBERS + 1)]
        names.append(("audit", "member-1"))
        self.members = [
            GroupMember(group, member, self.groups[group], bootstrap=bootstrap) for group, member in names
        ]
        self.producers = [
            ChannelProducer(
                channel, of_channel, bootstrap=bootstrap, rate=rate / len(CHANNELS), sent=self.sent
            )
            for channel, of_channel in shop_events(SEED, events).items()
        ]

    def open_for_readers(self) -> None:
        for member in self.members:
            member.start()

    def open_for_customers(self) -> None:
        for producer in self.producers:
            producer.start()

    @property
    def readers_are_ready(self) -> bool:
        return all(member.partitions for member in self.members)

    @property
    def producers_are_done(self) -> bool:
        return not any(producer.is_alive() for producer in self.producers)

    @property
    def readers_have_everything(self) -> bool:
        return not any(received.missing(self.sent) for received in self.groups.values())

    def close(self) -> None:
        threads: list[ChannelProducer | GroupMember] = [*self.producers, *self.members]
        for thread in threads:
            thread.stopping.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(30)


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, count) for name, count in TOPICS.items()]).values():
        future.result()


def crash_and_recover(node: NodeProcess, progress: Progress) -> None:
    progress.say(f"kill -9 {node.pid}: the node is gone, producers and readers go on")
    node.kill()
    progress.node("down")
    # Long enough to see that producers queue and readers wait. Nothing depends on it.
    seen_until = time.monotonic() + 1.0
    progress.wait_until(lambda: time.monotonic() > seen_until, "the node is down")
    began = time.monotonic()
    start_again(node)
    progress.node("up")
    progress.say(f"the node is back on the same ports, ready in {time.monotonic() - began:.2f} s")


def start_again(node: NodeProcess) -> None:
    """Start on the same ports; one of them may just now be the near end of somebody's connection."""
    for _ in range(RESTARTS_MAX):
        try:
            node.start()
        except NodeDidNotStart:
            time.sleep(0.5)
        else:
            return
    node.start()


def run(console: Console, directory: Path, *, events: int, rate: float) -> Report:
    began = time.monotonic()
    with node_process(directory / "data", {"log.fsync": "always"}) as node:
        ready_in = time.monotonic() - began
        create_topics(node.bootstrap_servers)
        shop = Shop(node.bootstrap_servers, events=events, rate=rate)
        try:
            with Progress(console, shop.sent, shop.groups, shop.members) as progress:
                progress.say(
                    f"millstream up: kafka={node.bootstrap_servers}, log.fsync=always, ready in {ready_in:.2f} s"
                )
                progress.node("up")
                shop.open_for_readers()
                progress.wait_until(lambda: shop.readers_are_ready, "groups form")
                progress.say("both groups have their partitions; the shop opens")
                shop.open_for_customers()
                progress.wait_until(lambda: shop.sent.acknowledged_count >= events // 2, "first half")
                crash_and_recover(node, progress)
                progress.wait_until(lambda: shop.producers_are_done, "second half")
                progress.say("every producer has its last answer; the groups catch up")
                progress.wait_until(lambda: shop.readers_have_everything, "groups catch up")
            shop.close()
            progress.say("a new reader replays every topic from its first offset")
            replayed = Replayed()
            replay(node.bootstrap_servers, TOPICS, replayed.take)
            node.stop()
            return judge(shop.sent, shop.groups, replayed)
        finally:
            shop.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many (default {EVENTS})")
    parser.add_argument("--rate", type=float, default=EVENTS_PER_SECOND, help="events/s of all producers")
    chosen = parser.parse_args(arguments)
    if chosen.events < 1 or chosen.rate <= 0:
        parser.error("--events and --rate must be positive")
    console = Console(width=None if sys.stdout.isatty() else 110)
    with tempfile.TemporaryDirectory(prefix="millstream-shop-") as directory:
        try:
            report = run(console, Path(directory), events=chosen.events, rate=chosen.rate)
        except KeyboardInterrupt:
            console.print("stopped")
            return 130
        except (NodeDidNotStart, NothingMoves, KafkaException) as problem:
            console.print(f"The demo could not finish: {problem}", highlight=False)
            return 1
    show(report, console)
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
