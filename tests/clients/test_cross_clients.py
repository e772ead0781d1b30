"""Written by one client, read by every other, in each compression."""

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients import parties
from tests.clients.confluent import Confluent
from tests.clients.conftest import find_kcat, find_tools
from tests.clients.parties import Record, records_of
from tests.support.batches import CODEC_NAMES
from tests.support.java_tools import JavaTools
from tests.support.raw import RawConnection
from tests.support.raw_requests import RawRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A topic for each compression; in each, the records of every writer there is here, in this order."""

    topics: dict[str, str]
    writers: list[str]

    @property
    def records(self) -> list[Record]:
        return [record for writer in self.writers for record in records_of(writer)]


@pytest.fixture(scope="module")
def written(bootstrap: str, admin: AdminClient) -> Written:
    """kcat and Java take part where they are installed; their own tests below say loudly if not."""
    kcat, tools = find_kcat(), find_tools(bootstrap)
    prefix = f"cross-{uuid.uuid4().hex[:8]}"
    topics = {codec: f"{prefix}-{codec}" for codec in CODEC_NAMES}
    writers = ["confluent", "aiokafka", "kafka-python", *["kcat"] * bool(kcat), *["java"] * bool(tools)]
    with Confluent(bootstrap, admin) as clients:
        for codec, topic in topics.items():
            clients.create_topic(topic)
            parties.confluent_writes(clients, topic, codec)
            parties.aiokafka_writes(clients, topic, codec)
            parties.kafka_python_writes(clients, topic, codec)
            if kcat is not None:
                parties.kcat_writes(kcat, clients, topic, codec)
            if tools is not None:
                parties.java_writes(tools, topic, codec)
    return Written(topics=topics, writers=writers)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize(
    "read",
    [parties.confluent_reads, parties.aiokafka_reads, parties.kafka_python_reads],
    ids=["confluent", "aiokafka", "kafka-python"],
)
def test_a_python_client_reads_what_every_client_wrote(
    written: Written,
    clients: Confluent,
    read: Callable[[Confluent, str, int], list[Record]],
    codec: str,
) -> None:
    found = read(clients, written.topics[codec], len(written.records))

    assert found == written.records


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_kcat_reads_what_every_client_wrote(
    written: Written, clients: Confluent, kcat: str, codec: str
) -> None:
    found = parties.kcat_reads(kcat, clients, written.topics[codec], len(written.records))

    assert found == written.records


def test_java_reads_what_every_client_wrote(written: Written, tools: JavaTools) -> None:
    pattern = written.topics["none"].removesuffix("none") + ".*"
    expected = written.records * len(written.topics)

    found = parties.java_reads(tools, pattern, len(expected))

    assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_each_writers_batches_are_stored_in_its_compression(
    written: Written, bootstrap: str, codec: str
) -> None:
    with RawConnection(bootstrap) as connection:
        batches = RawRequests(connection).batches(written.topics[codec])

    writers = {dict(batch.items[0].headers)["by"] for batch in batches}
    assert writers == {writer.encode() for writer in written.writers}
    assert {batch.compression for batch in batches} == {CODEC_NAMES.index(codec)}
