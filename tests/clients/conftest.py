"""The broker that the client suite talks to, and names that no other test uses.

Why: one suite runs unchanged against Millstream, Apache Kafka (MILLSTREAM_TEST_TARGET=kafka) or any address
(MILLSTREAM_TEST_BOOTSTRAP): a case that fails on Kafka is a wrong case.
Invariants: one broker serves the whole session, so a test touches only topics and groups of its own; the
node settings below carry Kafka's names and are given to either target.
"""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.confluent import Confluent
from tests.support.java_tools import JavaTools
from tests.support.kafka_jars import KafkaUnavailable
from tests.support.kafka_peer import running_kafka
from tests.support.raw import RawConnection
from tests.support.raw_groups import RawMember
from tests.support.raw_requests import RawRequests

NewMember = Callable[..., RawMember]

NODE_SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "1",
}
MILLSTREAM_ONLY = {
    # The default of a node, but not of `running_node`: this suite is to see the way a user's node goes.
    "log.fsync": "always",
}
KAFKA_ONLY = {
    "log.initial.task.delay.ms": "300",
    "log.cleaner.dedupe.buffer.size": "16777216",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """What a test may know about the target: where it is, and whether it is Millstream."""

    bootstrap_servers: str
    is_millstream: bool


@contextlib.contextmanager
def running_broker(settings: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """A broker of the asked kind with the suite's settings and these over them."""
    wanted = {**NODE_SETTINGS, **(settings or {})}
    if os.environ.get("MILLSTREAM_TEST_TARGET", "millstream") == "kafka":
        try:
            with running_kafka({**KAFKA_ONLY, **wanted}) as kafka:
                yield Broker(bootstrap_servers=kafka.bootstrap_servers, is_millstream=False)
        except KafkaUnavailable as reason:
            pytest.fail(f"MILLSTREAM_TEST_TARGET=kafka, but {reason}")
    else:
        from millstream.testing import running_node

        with running_node(settings={**MILLSTREAM_ONLY, **wanted}) as node:
            yield Broker(bootstrap_servers=node.bootstrap_servers, is_millstream=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    address = os.environ.get("MILLSTREAM_TEST_BOOTSTRAP")
    if address:
        is_millstream = os.environ.get("MILLSTREAM_TEST_TARGET", "millstream") != "kafka"
        yield Broker(bootstrap_servers=address, is_millstream=is_millstream)
    else:
        with running_broker() as running:
            yield running


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name of this test's own, legal for topics and groups."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:60].strip("-.")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(unique: str, clients: Confluent) -> str:
    """A new topic with one partition."""
    return clients.create_topic(unique)


@pytest.fixture
def group(unique: str) -> str:
    return f"{unique}-group"


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def clients(bootstrap: str, admin: AdminClient) -> Iterator[Confluent]:
    with Confluent(bootstrap, admin) as made:
        yield made


@pytest.fixture
def connection(bootstrap: str) -> Iterator[RawConnection]:
    with RawConnection(bootstrap) as opened:
        yield opened


@pytest.fixture
def raw(connection: RawConnection) -> RawRequests:
    return RawRequests(connection)


@pytest.fixture
def new_member(bootstrap: str, group: str) -> Iterator[NewMember]:
    """Makes raw members of this test's group."""
    with contextlib.ExitStack() as opened:

        def make(**options: Any) -> RawMember:
            member = RawMember(bootstrap, group, **options)
            opened.callback(member.close)
            return member

        yield make


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was left out for want of a tool is said out loud, whatever the verbosity."""
    reasons = {
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and "NOT TESTED" in report.longrepr[2]
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(reason, red=True, bold=True)


def find_tools(bootstrap: str) -> JavaTools | None:
    try:
        return JavaTools(bootstrap)
    except KafkaUnavailable:
        return None


def find_kcat() -> str | None:
    return shutil.which("kcat") or shutil.which("kafkacat")


@pytest.fixture(scope="session")
def tools(bootstrap: str) -> JavaTools:
    try:
        return JavaTools(bootstrap)
    except KafkaUnavailable as reason:
        pytest.skip(f"KAFKA'S JAVA TOOLS ARE NOT TESTED: {reason}")


@pytest.fixture(scope="session")
def kcat() -> str:
    found = find_kcat()
    if found is None:
        pytest.skip("KCAT IS NOT TESTED: no `kcat` command; `apt-get install kcat` brings it")
    return found
