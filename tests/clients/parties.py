"""The same records, written and read by each client there is.

Why: a batch that one client writes must be read by every other, whatever it was compressed with.
Invariants: a writer sends `records_of(itself)` in order to one topic with one partition; a reader gives every
record of a topic in offset order, as key, value and headers.
"""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka import TopicPartition as KafkaPythonPartition

from tests.clients.confluent import Confluent, Sent
from tests.support.java_tools import JavaTools

T = TypeVar("T")
Record = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

COUNT = 20
_TIMEOUT_S = 60


def records_of(writer: str) -> list[Record]:
    """What a writer sends: text without separators, worth compressing."""
    return [
        (
            b"%s-key-%d" % (writer.encode(), number),
            b"%d-" % number + b"stream" * 20,
            (("by", writer.encode()),),
        )
        for number in range(COUNT)
    ]


def confluent_writes(clients: Confluent, topic: str, codec: str) -> None:
    sent = [Sent(key=key, value=value, headers=headers) for key, value, headers in records_of("confluent")]
    clients.send(topic, *sent, compression_type=codec)


def confluent_reads(clients: Confluent, topic: str, count: int) -> list[Record]:
    found = clients.read(topic, count)
    headers: Any = [each.headers() for each in found]
    return [(each.key(), each.value(), tuple(own)) for each, own in zip(found, headers, strict=True)]


def aiokafka_writes(clients: Confluent, topic: str, codec: str) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=clients.bootstrap_servers, compression_type=None if codec == "none" else codec
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, key=key, value=value, headers=list(headers))
                for key, value, headers in records_of("aiokafka")
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    run(write)


def aiokafka_reads(clients: Confluent, topic: str, count: int) -> list[Record]:
    async def read() -> list[Record]:
        consumer = AIOKafkaConsumer(bootstrap_servers=clients.bootstrap_servers, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            found = [await consumer.getone() for _ in range(count)]
        finally:
            await consumer.stop()
        return [(each.key, each.value, tuple(each.headers)) for each in found]

    return run(read)


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work(), _TIMEOUT_S)

    return asyncio.run(bounded())


def kafka_python_writes(clients: Confluent, topic: str, codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=clients.bootstrap_servers,
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
    )
    sent = [
        producer.send(topic, key=key, value=value, headers=list(headers))
        for key, value, headers in records_of("kafka-python")
    ]
    for each in sent:
        each.get(timeout=_TIMEOUT_S)
    producer.close()


def kafka_python_reads(clients: Confluent, topic: str, count: int) -> list[Record]:
    consumer = KafkaConsumer(
        bootstrap_servers=clients.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=_TIMEOUT_S * 1000,
    )
    consumer.assign([KafkaPythonPartition(topic, 0)])
    found = [next(consumer) for _ in range(count)]
    consumer.close()
    return [(each.key, each.value, tuple(each.headers)) for each in found]


def kcat_writes(kcat: str, clients: Confluent, topic: str, codec: str) -> None:
    lines = b"".join(b"%s:%s\n" % (key or b"", value or b"") for key, value, _ in records_of("kcat"))
    command = [kcat, "-b", clients.bootstrap_servers, "-P", "-t", topic, "-K:", "-z", codec, "-H", "by=kcat"]
    subprocess.run(command, input=lines, check=True, timeout=_TIMEOUT_S, capture_output=True)


def kcat_reads(kcat: str, clients: Confluent, topic: str, count: int) -> list[Record]:
    command = [kcat, "-b", clients.bootstrap_servers, "-C", "-t", topic, "-p", "0", "-o", "beginning"]
    command += ["-e", "-q", "-c", str(count), "-f", "%k\t%s\t%h\n"]
    done = subprocess.run(command, check=True, timeout=_TIMEOUT_S, capture_output=True)
    return [_kcat_record(line) for line in done.stdout.splitlines()]


def _kcat_record(line: bytes) -> Record:
    key, value, headers = line.split(b"\t")
    name, _, header = headers.partition(b"=")
    return key, value, ((name.decode(), header),)


def java_writes(tools: JavaTools, topic: str, codec: str) -> None:
    lines = "".join(
        f"by:java\t{(key or b'').decode()}\t{(value or b'').decode()}\n"
        for key, value, _ in records_of("java")
    )
    options = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    tools.run("console-producer", "--topic", topic, "--compression-codec", codec, *options, stdin=lines)


def java_reads(tools: JavaTools, pattern: str, count: int) -> list[Record]:
    """Every record of the topics that match, in one start of Java; topics come in any order."""
    options = []
    for name in ("print.key=true", "print.headers=true"):
        options += ["--formatter-property", name]
    done = tools.run(
        "console-consumer",
        "--include",
        pattern,
        "--from-beginning",
        "--max-messages",
        str(count),
        "--timeout-ms",
        str(_TIMEOUT_S * 1000),
        *options,
    )
    return [_java_record(line) for line in done.lines]


def _java_record(line: str) -> Record:
    headers, key, value = line.split("\t")
    name, _, header = headers.partition(":")
    return key.encode(), value.encode(), ((name, header.encode()),)
