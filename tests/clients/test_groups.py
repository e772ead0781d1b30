"""Consumer groups as applications use them: sharing the load, coming and going, remembering the way."""

import time
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka import ConsumerGroupState as State
from confluent_kafka.admin import AdminClient

from tests.clients.admin_types import NewPartitions
from tests.clients.confluent import Confluent, Sent, error_code, poll_until, take, values
from tests.support.waiting import DEADLINE_S, eventually


def partitions_of(*consumers: Consumer) -> list[list[int]]:
    return [sorted(each.partition for each in consumer.assignment()) for consumer in consumers]


def shared_evenly(consumers: Iterable[Consumer], partitions: int) -> bool:
    found = partitions_of(*consumers)
    sizes = [len(each) for each in found]
    return sorted(chain.from_iterable(found)) == list(range(partitions)) and max(sizes) - min(sizes) <= 1


def send_numbers(clients: Confluent, topic: str, partitions: int, start: int, end: int) -> None:
    clients.send(topic, *[Sent(value=b"%d" % n, partition=n % partitions) for n in range(start, end)])


def test_members_share_the_partitions_and_get_each_record_once(
    clients: Confluent, unique: str, group: str
) -> None:
    topic = clients.create_topic(unique, partitions=4)
    members = [clients.consumer(group) for _ in range(2)]
    for member in members:
        member.subscribe([topic])
    poll_until(members, lambda: shared_evenly(members, 4))

    send_numbers(clients, topic, 4, 0, 200)
    found: list[Message] = []
    while len(found) < 200:
        found += poll_until(members, iter([False, True]).__next__)

    assert Counter(values(found)) == Counter(b"%d" % number for number in range(200))


def test_groups_do_not_disturb_each_other(clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, b"for all")
    members = [clients.consumer(f"{group}-{number}") for number in range(3)]
    for member in members:
        member.subscribe([topic])

    assert [values(take(member, 1)) for member in members] == [[b"for all"]] * 3


def test_a_member_that_joins_takes_its_share_and_gives_it_back_when_it_leaves(
    clients: Confluent, unique: str, group: str
) -> None:
    topic = clients.create_topic(unique, partitions=4)
    first, second = clients.consumer(group), clients.consumer(group)
    first.subscribe([topic])
    poll_until([first], lambda: partitions_of(first) == [[0, 1, 2, 3]])

    second.subscribe([topic])
    poll_until([first, second], lambda: shared_evenly([first, second], 4))
    second.close()

    poll_until([first], lambda: partitions_of(first) == [[0, 1, 2, 3]])


def test_more_members_than_partitions_leave_one_waiting(clients: Confluent, unique: str, group: str) -> None:
    topic = clients.create_topic(unique, partitions=2)
    members = [clients.consumer(group) for _ in range(3)]
    for member in members:
        member.subscribe([topic])

    poll_until(members, lambda: sorted(map(len, partitions_of(*members))) == [0, 1, 1])


def test_new_partitions_reach_the_group(clients: Confluent, topic: str, group: str) -> None:
    member = clients.consumer(group, topic_metadata_refresh_interval_ms=200)
    member.subscribe([topic])
    poll_until([member], lambda: partitions_of(member) == [[0]])

    clients.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(timeout=DEADLINE_S)

    poll_until([member], lambda: partitions_of(member) == [[0, 1, 2]])


def test_a_pattern_subscribes_to_topics_that_come_later(clients: Confluent, unique: str, group: str) -> None:
    member = clients.consumer(group, topic_metadata_refresh_interval_ms=200)
    member.subscribe([f"^{unique}-.*"])

    clients.create_topic(f"{unique}-a")
    clients.create_topic(f"{unique}-b")

    poll_until([member], lambda: len(member.assignment()) == 2)


def test_cooperative_members_keep_what_they_hold_while_others_join(
    clients: Confluent, unique: str, group: str
) -> None:
    topic = clients.create_topic(unique, partitions=4)
    revoked: list[int] = []
    first, second = (
        clients.consumer(group, partition_assignment_strategy="cooperative-sticky") for _ in range(2)
    )
    first.subscribe([topic], on_revoke=lambda _, gone: revoked.extend(each.partition for each in gone))
    poll_until([first], lambda: partitions_of(first) == [[0, 1, 2, 3]])

    second.subscribe([topic])
    poll_until([first, second], lambda: shared_evenly([first, second], 4))

    assert sorted(revoked) == partitions_of(second)[0]


def test_a_static_member_restarts_without_a_rebalance(clients: Confluent, unique: str, group: str) -> None:
    topic = clients.create_topic(unique, partitions=2)
    rebalances: list[int] = []
    staying = clients.consumer(group, group_instance_id="staying", session_timeout_ms=30_000)
    restarted = clients.consumer(group, group_instance_id="restarted", session_timeout_ms=30_000)
    staying.subscribe([topic], on_revoke=lambda _, gone: rebalances.append(len(gone)))
    restarted.subscribe([topic])
    poll_until([staying, restarted], lambda: shared_evenly([staying, restarted], 2))
    before, mine = len(rebalances), partitions_of(restarted)

    restarted.close()
    again = clients.consumer(group, group_instance_id="restarted", session_timeout_ms=30_000)
    again.subscribe([topic])
    poll_until([staying, again], lambda: partitions_of(again) == mine)

    assert len(rebalances) == before


def test_a_second_member_with_the_same_instance_id_fences_the_first(
    clients: Confluent, topic: str, group: str
) -> None:
    first, second = (clients.consumer(group, group_instance_id="only-one") for _ in range(2))
    first.subscribe([topic])
    poll_until([first], lambda: partitions_of(first) == [[0]])
    errors: list[int] = []

    def first_was_fenced() -> bool:
        try:
            message = first.poll(0.05)
        except KafkaException as raised:
            errors.append(error_code(raised))
            return True
        error = None if message is None else message.error()
        if error is not None:
            errors.append(error.code())
        return bool(errors)

    second.subscribe([topic])
    poll_until([second], first_was_fenced)

    assert errors[0] in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL)


def test_a_group_goes_on_where_it_committed(clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])
    first = clients.consumer(group)
    first.subscribe([topic])
    read = take(first, 4)
    first.commit(message=read[-1], asynchronous=False)
    first.close()

    second = clients.consumer(group)
    second.subscribe([topic])

    assert values(take(second, 6)) == [b"%d" % number for number in range(4, 10)]


def test_auto_commit_remembers_what_was_read_at_close(clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, *[b"%d" % number for number in range(10)])
    first = clients.consumer(group, enable_auto_commit=True)
    first.subscribe([topic])
    take(first, 10)
    first.close()

    (found,) = clients.consumer(group).committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)

    assert found.offset == 10


def test_an_offset_is_committed_with_its_metadata(clients: Confluent, topic: str, group: str) -> None:
    member = clients.consumer(group)
    wanted = TopicPartition(topic, 0, 5, metadata="node-7 at noon")

    member.commit(offsets=[wanted], asynchronous=False)
    (found,) = member.committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)

    assert (found.offset, (found.metadata or "").rstrip("\0")) == (5, "node-7 at noon")


def test_what_was_never_committed_is_invalid(clients: Confluent, topic: str, group: str) -> None:
    (found,) = clients.consumer(group).committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)

    assert found.offset == OFFSET_INVALID


def test_an_evicted_member_cannot_commit(clients: Confluent, topic: str, group: str) -> None:
    clients.send(topic, b"slow")
    slow = clients.consumer(
        group, session_timeout_ms=1_000, heartbeat_interval_ms=200, max_poll_interval_ms=1_000
    )
    slow.subscribe([topic])
    (message,) = take(slow, 1)
    time.sleep(1.5)  # past max.poll.interval.ms: the client leaves the group by itself
    eventually(lambda: not members_of(clients.admin, group))

    with pytest.raises(KafkaException) as refused:
        slow.commit(message=message, asynchronous=False)

    assert error_code(refused.value) in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError._MAX_POLL_EXCEEDED)


def members_of(admin: AdminClient, group: str) -> list[str]:
    found = admin.describe_consumer_groups([group])[group].result(timeout=DEADLINE_S)
    return [member.member_id for member in found.members]


def test_offsets_are_set_and_listed_by_an_administrator(clients: Confluent, topic: str, group: str) -> None:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 33)])

    clients.admin.alter_consumer_group_offsets([wanted])[group].result(timeout=DEADLINE_S)
    asked = ConsumerGroupTopicPartitions(group)
    found = clients.admin.list_consumer_group_offsets([asked])[group].result(timeout=DEADLINE_S)

    assert [(each.topic, each.partition, each.offset) for each in found.topic_partitions] == [(topic, 0, 33)]


def test_offsets_of_a_group_at_work_are_not_set_from_outside(
    clients: Confluent, topic: str, group: str
) -> None:
    member = clients.consumer(group)
    member.subscribe([topic])
    poll_until([member], lambda: partitions_of(member) == [[0]])
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 33)])

    found = clients.admin.alter_consumer_group_offsets([wanted])[group].result(timeout=DEADLINE_S)

    codes = [each.error.code() for each in found.topic_partitions if each.error is not None]
    assert codes == [KafkaError.UNKNOWN_MEMBER_ID]


def test_a_group_is_described_with_its_members(clients: Confluent, topic: str, group: str) -> None:
    member = clients.consumer(group, client_id="the-reader")
    member.subscribe([topic])
    poll_until([member], lambda: partitions_of(member) == [[0]])

    found = clients.admin.describe_consumer_groups([group])[group].result(timeout=DEADLINE_S)

    assert (found.state, found.partition_assignor, found.is_simple_consumer_group) == (
        State.STABLE,
        "range",
        False,
    )
    (described,) = found.members
    assert (described.client_id, described.host.lstrip("/")) == ("the-reader", "127.0.0.1")
    assert [each.topic for each in described.assignment.topic_partitions] == [topic]
    assert f"{found.coordinator.host}:{found.coordinator.port}" == clients.bootstrap_servers


def test_a_group_without_members_is_empty_and_an_unknown_one_is_dead(
    clients: Confluent, topic: str, group: str
) -> None:
    clients.consumer(group).commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)

    def state(name: str) -> State | int:
        try:
            found = clients.admin.describe_consumer_groups([name])[name].result(timeout=DEADLINE_S)
        except KafkaException as error:
            return error_code(error)
        return found.state  # type: ignore[no-any-return]  # untyped in confluent-kafka

    assert state(group) == State.EMPTY
    assert state(f"{group}-unknown") in (State.DEAD, KafkaError.GROUP_ID_NOT_FOUND)


def test_groups_are_listed_by_state(clients: Confluent, topic: str, group: str) -> None:
    idle, busy = f"{group}-idle", f"{group}-busy"
    clients.consumer(idle).commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    member = clients.consumer(busy)
    member.subscribe([topic])
    poll_until([member], lambda: partitions_of(member) == [[0]])

    def listed(*states: State) -> set[str]:
        found = clients.admin.list_consumer_groups(states=set(states)).result(timeout=DEADLINE_S)
        assert not found.errors
        return {each.group_id for each in found.valid} & {idle, busy}

    assert listed() == {idle, busy}
    assert listed(State.EMPTY) == {idle}
    assert listed(State.STABLE) == {busy}
    assert listed(State.STABLE, State.EMPTY) == {idle, busy}


def test_an_empty_group_is_deleted_with_its_offsets(clients: Confluent, topic: str, group: str) -> None:
    clients.consumer(group).commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)

    clients.admin.delete_consumer_groups([group])[group].result(timeout=DEADLINE_S)

    listed = clients.admin.list_consumer_groups().result(timeout=DEADLINE_S)
    assert group not in {each.group_id for each in listed.valid}
    (found,) = clients.consumer(group).committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
    assert found.offset == OFFSET_INVALID


def test_a_group_with_members_is_not_deleted(clients: Confluent, topic: str, group: str) -> None:
    member = clients.consumer(group)
    member.subscribe([topic])
    poll_until([member], lambda: partitions_of(member) == [[0]])

    with pytest.raises(KafkaException) as refused:
        clients.admin.delete_consumer_groups([group])[group].result(timeout=DEADLINE_S)

    assert error_code(refused.value) == KafkaError.NON_EMPTY_GROUP


def test_a_group_that_is_not_there_is_not_deleted(clients: Confluent, group: str) -> None:
    with pytest.raises(KafkaException) as refused:
        clients.admin.delete_consumer_groups([group])[group].result(timeout=DEADLINE_S)

    assert error_code(refused.value) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_takes_its_committed_offsets_along(
    clients: Confluent, topic: str, group: str
) -> None:
    member = clients.consumer(group)
    member.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)

    clients.admin.delete_topics([topic])[topic].result(timeout=DEADLINE_S)
    eventually(lambda: topic not in clients.admin.list_topics(timeout=DEADLINE_S).topics)
    clients.create_topic(topic)

    def offset() -> int:
        (found,) = clients.consumer(group).committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
        return found.offset

    assert eventually(lambda: offset() == OFFSET_INVALID)
