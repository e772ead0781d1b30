"""Files that changed while the node was away: it starts, serves all that is undamaged, and never serves the rest.

Each of many partitions gets one damage of its own, so one start tries a dozen of them.
"""

import random
import shutil
import struct

import pytest
from kio.schema.errors import ErrorCode

from millstream.testing import running_node
from millstream.testing.process import NodeProcess
from tests.faults.asking import Asking
from tests.faults.damage import KINDS, flip_a_bit
from tests.support.batches import Batch, Item, decode
from tests.support.raw_groups import committed, committed_as, wait_for_coordinator

PARTITIONS = 18
RECORDS = 40
TOPIC = "orders"
GROUP = "group"
SETTINGS = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "1"}
UNREADABLE = (ErrorCode.corrupt_message, ErrorCode.offset_out_of_range, None)
SEEDS = range(3)


def value_of(partition, number):
    return f"{partition}:{number}:".encode().ljust(90, b".")


@pytest.fixture(scope="module", params=["stop", "kill"])
def left_behind(request, tmp_path_factory):
    """The data directory of a node that was stopped, or killed."""
    directory = tmp_path_factory.mktemp("left")
    node = NodeProcess(directory / "data", SETTINGS)
    node.start()
    try:
        with Asking(node.bootstrap_servers) as client:
            client.create_topic(TOPIC, partitions=PARTITIONS, config={"segment.bytes": "2048"})
            for number in range(12):
                client.create_topic(f"small-{number}")
                client.raw.produce(f"small-{number}", Batch(items=[Item(value=b"%d" % number)]).encode())
            wait_for_coordinator(client.connection, GROUP)
            for number in range(RECORDS):
                for partition in range(PARTITIONS):
                    produce(client, partition, number)
            for partition in range(PARTITIONS):
                committed_as(client.connection, TOPIC, RECORDS, group_id=GROUP, partition=partition)
        assert getattr(node, request.param)() in (0, -9)
    finally:
        node.kill()
    return directory / "data"


def produce(client, partition, number):
    batch = Batch(
        items=[Item(value=value_of(partition, number))],
        producer_id=partition + 100,
        producer_epoch=0,
        base_sequence=number,
    )
    answer = client.raw.produce(TOPIC, batch.encode(), partition=partition)
    assert answer.error_code == 0
    return answer.base_offset


@pytest.fixture
def data(left_behind, tmp_path):
    return shutil.copytree(left_behind, tmp_path / "data")


def batches_in(path):
    """(start, end, offset) of each batch of an undamaged segment; they hold one record each."""
    content = path.read_bytes()
    found, position = [], 0
    while position < len(content):
        offset, length = struct.unpack_from(">qi", content, position)
        found.append((position, position + length + 12, offset))
        position += length + 12
    return found


def harm(directory, chance):
    """Damage one file of a partition; returns the offsets that may be unreadable for it, and what was done."""
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.stat().st_size)
    logs = [path for path in files if path.suffix == ".log"]
    path = chance.choice(logs if chance.random() < 0.7 else files)
    batches = batches_in(path) if path.suffix == ".log" else []
    kind = chance.choice(KINDS)
    start, end = kind(path, chance)
    offsets = {offset for first, last, offset in batches if first < end and start < last}
    return offsets, f"{kind.__name__} in {directory.name}/{path.name}, bytes {start} to {end}"


def read_each(client, partition):
    """What a fetch at each offset gives: the record there, an error code, or None at the log's end."""
    found = {}
    for offset in range(RECORDS):
        answer = client.raw.fetch(TOPIC, offset, partition=partition, max_wait_ms=0, partition_max_bytes=1)
        if answer.error_code:
            found[offset] = answer.error_code
            continue
        found[offset] = None
        for batch in decode(answer.records):
            assert batch.crc_holds
            found[offset] = (batch.base_offset, batch.items[0].value)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_undamaged_is_served_and_what_is_damaged_never(data, seed):
    chance = random.Random(seed)
    harmed = {p: harm(data / "topics" / f"{TOPIC}-{p}", chance) for p in range(PARTITIONS)}

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        for partition in range(PARTITIONS):
            damaged, done = harmed[partition]
            wrong = {
                offset: answer
                for offset, answer in read_each(client, partition).items()
                if answer != (offset, value_of(partition, offset))
                and not (offset in damaged and answer in UNREADABLE)
            }
            assert wrong == {}, done


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_go_on_behind_the_damage_and_are_never_given_twice(data, seed):
    chance = random.Random(100 + seed)
    harmed = {p: harm(data / "topics" / f"{TOPIC}-{p}", chance) for p in range(PARTITIONS)}

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        for partition in range(PARTITIONS):
            batch = Batch(items=[Item(value=b"new")]).encode()
            offset = client.raw.produce(TOPIC, batch, partition=partition).base_offset
            damaged, done = harmed[partition]
            if RECORDS - 1 not in damaged:
                assert offset == RECORDS, done
            (found,) = client.raw.batches(TOPIC, offset, partition=partition)
            assert found.items[0].value == b"new"


@pytest.mark.parametrize("seed", range(3))
def test_a_reading_consumer_gets_past_the_damage_by_seeking(data, seed):
    chance = random.Random(200 + seed)
    path = sorted((data / "topics" / f"{TOPIC}-0").glob("*.log"))[1]
    batches = batches_in(path)
    start, _ = flip_a_bit(path, chance)
    bad = next(offset for first, last, offset in batches if first <= start < last)

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        before = client.raw.batches(TOPIC, bad - 1)
        at = client.raw.fetch(TOPIC, bad)
        behind = client.raw.batches(TOPIC, bad + 1)

    assert [batch.base_offset for batch in before] == [bad - 1]
    assert at.error_code == ErrorCode.corrupt_message
    assert behind[0].base_offset == bad + 1


def test_producers_are_recognised_though_their_snapshot_is_damaged(data):
    for partition in range(PARTITIONS):
        for path in (data / "topics" / f"{TOPIC}-{partition}").glob("producers.snapshot"):
            path.write_bytes(b"\0" * 100)

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        again = [produce(client, partition, RECORDS - 1) for partition in range(PARTITIONS)]
        ends = [client.raw.end_offset(TOPIC, partition=partition) for partition in range(PARTITIONS)]

    assert again == [RECORDS - 1] * PARTITIONS
    assert ends == [RECORDS] * PARTITIONS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_identity_makes_no_epoch_go_backwards(data, kind):
    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        produce(client, 0, RECORDS)
        epoch = client.raw.leader_epoch(TOPIC)
    kind(data / "node.json", random.Random(1))

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        assert client.raw.leader_epoch(TOPIC) >= epoch
        assert client.raw.fetch(TOPIC, 0, leader_epoch=client.raw.leader_epoch(TOPIC)).error_code == 0
        assert produce(client, 0, RECORDS + 1) == RECORDS + 1
        assert len(client.raw.batches(TOPIC, RECORDS)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_catalog_loses_no_data_and_no_other_topic(data, seed):
    chance = random.Random(300 + seed)
    (path,) = (data / "topics" / "__cluster_metadata-0").glob("*.log")
    count = len(batches_in(path))
    flip_a_bit(path, chance)

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        answer = client.connection.call("metadata", 12, topics=None, allow_auto_topic_creation=False)
        names = {topic.name for topic in answer.topics}
        values = {name: next(client.records(name))[2] for name in names if name.startswith("small-")}

    everything = {f"small-{number}" for number in range(12)} | {TOPIC, "__consumer_offsets"}
    assert count >= len(everything)
    assert len(everything - names) <= 1
    assert values == {name: name.removeprefix("small-") for name in values}
    for lost in everything - names:
        (kept,) = data.glob(f"quarantine/{lost}-0.*/00000000000000000000.log")
        assert kept.stat().st_size > 0


@pytest.mark.parametrize("seed", range(4))
def test_damaged_commits_take_no_others_with_them(data, seed):
    (path,) = (data / "topics" / "__consumer_offsets-0").glob("*.log")
    flip_a_bit(path, random.Random(400 + seed))

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        offsets = [committed(client.connection, GROUP, TOPIC, p)[0] for p in range(PARTITIONS)]

    assert set(offsets) <= {RECORDS, -1}
    assert offsets.count(-1) <= 1


def test_files_that_are_not_ours_are_left_alone(data):
    strangers = [
        data / "notes.txt",
        data / "topics" / "readme",
        data / "topics" / f"{TOPIC}-0" / "backup.log.gz",
        data / "archive" / "elsewhere" / "file",
    ]
    for path in strangers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        assert len(list(client.records(TOPIC))) == RECORDS

    assert [path.read_text() for path in strangers] == ["mine"] * len(strangers)


def test_a_directory_that_no_topic_is_known_for_is_set_aside_whole(data):
    unknown = data / "topics" / "stranger-0"
    shutil.copytree(data / "topics" / f"{TOPIC}-0", unknown)
    sizes = {path.name: path.stat().st_size for path in unknown.iterdir()}

    with running_node(data, SETTINGS) as node, Asking(node.bootstrap_servers) as client:
        assert client.raw.topic_metadata("stranger").error_code == ErrorCode.unknown_topic_or_partition
        assert client.create_topic("stranger")
        assert list(client.records("stranger")) == []

    (aside,) = data.glob("quarantine/stranger-0.*")
    assert {path.name: path.stat().st_size for path in aside.iterdir()} == sizes
