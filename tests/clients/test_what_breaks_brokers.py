"""The list of what breaks compatible brokers in practice, a test for each line.

The lines about transactions are not here yet.
"""

import struct
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaProducer  # type: ignore[import-untyped]
from kio.schema.errors import ErrorCode

from tests.clients.confluent import Confluent, assign_at, error_code, take, values
from tests.support.batches import Batch, Item, decode, now_ms, values_batch
from tests.support.raw import API_KEYS, RawConnection, framed, response_entity
from tests.support.raw_groups import RawMember, committed, committed_as, wait_for_coordinator
from tests.support.raw_requests import RawRequests

API_VERSIONS = API_KEYS["api_versions"]


def flexible_header(api_key: int, version: int, correlation_id: int, client_id: bytes = b"raw") -> bytes:
    """Request header v2: a legacy string for the client id, then no tagged fields."""
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id + b"\x00"


@pytest.mark.parametrize("version", [5, 6, 99, 32767])
def test_01_an_unknown_api_versions_version_is_answered_in_v0_with_its_own_range(
    connection: RawConnection, version: int
) -> None:
    connection.send_bytes(framed(flexible_header(API_VERSIONS, version, 7) + b"\x04raw\x041.0\x00"))

    answer = response_entity("api_versions", 0, connection.receive_frame(), 7)

    assert answer.error_code == ErrorCode.unsupported_version
    ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert ranges[API_VERSIONS] == (0, 4)
    assert connection.call(
        "api_versions", 3, client_software_name="raw", client_software_version="1"
    ).api_keys


@pytest.mark.parametrize("version", [0, 1, 2])
def test_02_the_api_versions_response_header_is_always_v0(connection: RawConnection, version: int) -> None:
    answer = connection.call("api_versions", version)

    assert (answer.error_code, len(answer.api_keys) > 20) == (ErrorCode.none, True)


@pytest.mark.parametrize("version", [3, 4])
def test_02_the_api_versions_response_header_is_v0_even_where_requests_are_flexible(
    connection: RawConnection, version: int
) -> None:
    answer = connection.call(
        "api_versions", version, client_software_name="raw", client_software_version="1.0"
    )

    assert (answer.error_code, len(answer.api_keys) > 20) == (ErrorCode.none, True)


@pytest.mark.parametrize("client_id", [b"", b"caf\xc3\xa9", b"x" * 300])
def test_02_the_client_id_of_a_flexible_request_is_a_legacy_string(
    connection: RawConnection, client_id: bytes
) -> None:
    body = b"\x01\x01\x00\x00\x00\x00"  # no topics, three booleans, no tagged fields

    connection.send_bytes(framed(flexible_header(API_KEYS["metadata"], 9, 4, client_id) + body))

    assert response_entity("metadata", 9, connection.receive_frame(), 4).brokers


def test_02_the_client_id_may_be_null(connection: RawConnection) -> None:
    header = struct.pack(">hhih", API_KEYS["metadata"], 9, 4, -1) + b"\x00"

    connection.send_bytes(framed(header + b"\x01\x01\x00\x00\x00\x00"))

    assert response_entity("metadata", 9, connection.receive_frame(), 4).brokers


def test_03_produce_is_advertised_from_0(connection: RawConnection) -> None:
    ranges = {each.api_key: each.min_version for each in connection.call("api_versions", 2).api_keys}

    assert ranges[API_KEYS["produce"]] == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_03_produce_0_to_2_is_rejected(connection: RawConnection, version: int) -> None:
    header = struct.pack(">hhih", API_KEYS["produce"], version, 1, 3) + b"raw"

    connection.send_bytes(framed(header + struct.pack(">hii", 1, 1000, 0)))

    assert connection.is_closed_by_peer()


def test_04_fetch_from_13_works_with_the_topic_ids_that_metadata_tells(
    connection: RawConnection, raw: RawRequests, topic: str
) -> None:
    raw.produce(topic, values_batch(b"by id"))
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}]

    answer = connection.call(
        "fetch",
        13,
        replica_id=-1,
        max_wait=500,
        min_bytes=1,
        max_bytes=1_000_000,
        topics=[{"topic_id": raw.topic_id(topic), "partitions": partitions}],
    )

    (batch,) = decode(answer.responses[0].partitions[0].records)
    assert batch.items[0].value == b"by id"


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_04_every_metadata_version_that_has_topic_ids_tells_real_ones(
    connection: RawConnection, topic: str, version: int
) -> None:
    (found,) = connection.call("metadata", version, topics=[{"name": topic}]).topics

    assert (found.error_code, found.topic_id is not None) == (ErrorCode.none, True)


@pytest.mark.parametrize("version", [12, 13])
def test_04_metadata_is_asked_for_by_topic_id(
    connection: RawConnection, raw: RawRequests, topic: str, version: int
) -> None:
    (found,) = connection.call(
        "metadata", version, topics=[{"topic_id": raw.topic_id(topic), "name": None}]
    ).topics

    assert (found.error_code, found.name) == (ErrorCode.none, topic)


def test_05_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(
    raw: RawRequests, clients: Confluent, topic: str
) -> None:
    raw.produce(topic, values_batch(*[b"%d" % number for number in range(10)]))

    (batch,) = raw.batches(topic, 7)

    assert batch.offsets == list(range(10))
    assert values(clients.read(topic, 3, offset=7)) == [b"7", b"8", b"9"]


def test_06_a_metadata_request_creates_the_topic(
    clients: Confluent, connection: RawConnection, unique: str
) -> None:
    connection.call("metadata", 4, topics=[{"name": unique}], allow_auto_topic_creation=True)

    clients.send(unique, b"at home")

    assert values(clients.read(unique, 1)) == [b"at home"]


def test_08_list_offsets_by_timestamp_finds_the_first_record_at_or_after_it(
    raw: RawRequests, topic: str
) -> None:
    start = now_ms() - 10_000
    items = [Item(value=b"x", timestamp_delta=delta) for delta in (0, 50, 20, 80)]
    raw.produce(topic, Batch(items=items, base_timestamp=start).encode())

    found = [raw.list_offsets(topic, start + delta).offset for delta in (0, 1, 51, 80, 81)]

    assert found == [0, 1, 3, 3, -1]


def test_08_metadata_of_committed_offsets_is_kept(connection: RawConnection, group: str, topic: str) -> None:
    wait_for_coordinator(connection, group)
    committed_as(connection, topic, 3, group_id=group, metadata="note\x00")

    assert committed(connection, group, topic) == (3, "note\x00")


def test_08_describe_configs_tells_all_defaults(connection: RawConnection, topic: str) -> None:
    wanted = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}

    (found,) = connection.call("describe_configs", 4, resources=[wanted]).results

    names = {each.name for each in found.configs}
    assert len(names) >= 33
    assert all(each.value is not None for each in found.configs)


def test_08_max_message_bytes_is_held(clients: Confluent, unique: str) -> None:
    topic = clients.create_topic(unique, max_message_bytes=2_000)

    with pytest.raises(KafkaException) as refused:
        clients.send(topic, b"x" * 2_000)

    assert error_code(refused.value) == KafkaError.MSG_SIZE_TOO_LARGE


def test_08_a_keyless_record_on_a_compacted_topic_is_rejected(raw: RawRequests, unique: str) -> None:
    topic = raw.create_topic(unique, cleanup_policy="compact")

    assert raw.produce(topic, values_batch(b"no key")).error_code == ErrorCode.invalid_record


def test_09_concurrent_rebalances_do_not_lose_a_member(bootstrap: str, group: str) -> None:
    members = [RawMember(bootstrap, group) for _ in range(6)]
    refused: list[Any] = []

    def live(member: RawMember) -> None:
        for _ in range(4):
            joined = member.join()
            if joined.error_code == ErrorCode.none:
                mine = {each.member_id: b"share" for each in joined.members}
                joined = member.sync(mine if joined.leader == member.member_id else None)
            if joined.error_code not in (ErrorCode.none, ErrorCode.rebalance_in_progress):
                refused.append(joined)
        member.leave()

    threads = [threading.Thread(target=live, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for member in members:
        member.close()

    assert refused == []


def test_09_an_empty_assignment_is_an_empty_answer(bootstrap: str, group: str) -> None:
    member = RawMember(bootstrap, group)
    member.join()

    answer = member.sync({member.member_id: b""})

    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"")
    member.close()


def test_10_the_leader_epoch_in_metadata_is_the_one_in_stored_batches(raw: RawRequests, topic: str) -> None:
    # That it never goes backwards over a restart is in test_restart.py.
    raw.produce(topic, values_batch(b"a"))

    (batch,) = raw.batches(topic)

    assert batch.leader_epoch == raw.leader_epoch(topic)


def test_11_a_client_that_says_localhost_is_served(clients: Confluent, topic: str) -> None:
    port = clients.bootstrap_servers.rpartition(":")[2]
    clients.send(topic, b"home", bootstrap_servers=f"localhost:{port}")
    consumer = clients.consumer(bootstrap_servers=f"localhost:{port}")

    assign_at(consumer, topic)

    assert values(take(consumer, 1)) == [b"home"]


def test_11_the_advertised_address_is_one_that_answers(connection: RawConnection) -> None:
    (node,) = connection.call("metadata", 9, topics=[]).brokers

    with RawConnection(f"{node.host}:{node.port}") as advertised:
        assert advertised.call("metadata", 9, topics=[]).brokers


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("raw", ""), ("two words", "1"), ("-raw", "1"), ("raw-", "1"), ("ra_w", "1"), ("raw", "1/2")],
)
def test_12_a_bad_client_software_name_or_version_is_refused(
    connection: RawConnection, version: int, name: str, software_version: str
) -> None:
    answer = connection.call(
        "api_versions", version, client_software_name=name, client_software_version=software_version
    )

    assert answer.error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("name", "software_version"), [("r", "1"), ("apache-kafka.java", "4.3.0-rc1")])
def test_12_a_good_client_software_name_and_version_is_taken(
    connection: RawConnection, version: int, name: str, software_version: str
) -> None:
    answer = connection.call(
        "api_versions", version, client_software_name=name, client_software_version=software_version
    )

    assert answer.error_code == ErrorCode.none


def test_13_kafka_python_takes_the_broker_for_a_recent_one(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)

    assert producer.config["api_version"] >= (4, 0)
    producer.close()


def test_14_a_duplicate_sequence_is_a_success_with_the_old_offset(raw: RawRequests, topic: str) -> None:
    producer_id, epoch = raw.producer_id()
    batch = Batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=0).encode()
    raw.produce(topic, values_batch(b"before"))

    first, second = raw.produce(topic, batch), raw.produce(topic, batch)

    assert [(each.error_code, each.base_offset) for each in (first, second)] == [(ErrorCode.none, 1)] * 2
    assert raw.end_offset(topic) == 2


def test_an_advertised_high_watermark_never_regresses(
    clients: Confluent, raw: RawRequests, topic: str
) -> None:
    seen: list[int] = []
    producer = clients.producer()

    for number in range(100):
        producer.produce(topic, b"%d" % number)
        producer.flush(10)
        seen.append(raw.end_offset(topic))

    assert seen == sorted(seen) == list(range(1, 101))


def test_acls_without_an_authorizer_are_answered_with_security_disabled(connection: RawConnection) -> None:
    answer = connection.call(
        "describe_acls",
        3,
        resource_type_filter=1,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
    )

    assert answer.error_code == ErrorCode.security_disabled


def test_every_advertised_version_of_metadata_answers(connection: RawConnection, topic: str) -> None:
    ranges = {each.api_key: each for each in connection.call("api_versions", 2).api_keys}
    metadata = ranges[API_KEYS["metadata"]]

    found = [
        connection.call("metadata", version, topics=[{"name": topic}]).topics[0].error_code
        for version in range(metadata.min_version, metadata.max_version + 1)
    ]

    assert set(found) == {ErrorCode.none}


def test_the_versions_that_clients_use_are_advertised(connection: RawConnection) -> None:
    ranges = {
        each.api_key: (each.min_version, each.max_version)
        for each in connection.call("api_versions", 2).api_keys
    }
    wanted = {
        "produce": (3, 10),
        "fetch": (4, 16),
        "list_offsets": (1, 7),
        "metadata": (4, 13),
        "offset_commit": (2, 9),
        "offset_fetch": (1, 9),
        "find_coordinator": (0, 6),
        "join_group": (0, 9),
        "heartbeat": (0, 4),
        "leave_group": (0, 5),
        "sync_group": (0, 5),
        "api_versions": (0, 4),
        "create_topics": (2, 7),
        "delete_topics": (1, 6),
        "init_producer_id": (0, 4),
        "offset_for_leader_epoch": (2, 4),
        "describe_configs": (1, 4),
        "describe_groups": (0, 5),
        "list_groups": (0, 5),
        "delete_groups": (0, 2),
        "delete_records": (0, 2),
        "create_partitions": (0, 3),
        "alter_configs": (0, 2),
        "incremental_alter_configs": (0, 1),
        "describe_cluster": (0, 1),
        "describe_topic_partitions": (0, 0),
        "offset_delete": (0, 0),
        "describe_log_dirs": (1, 4),
    }

    missing = {
        name: ranges.get(API_KEYS[name])
        for name, (low, high) in wanted.items()
        if API_KEYS[name] not in ranges or ranges[API_KEYS[name]][0] > low or ranges[API_KEYS[name]][1] < high
    }

    assert missing == {}
