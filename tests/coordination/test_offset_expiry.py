"""When offsets are forgotten: never while they are of use."""

import pytest

from tests.coordination.room import SESSION_MS, Room, subscription

MINUTE_MS = 60_000
RETENTION_MS = 60 * MINUTE_MS


@pytest.fixture
def room():
    return Room(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE_MS)


def keep_alive(room, member_id, *, ms):
    for _ in range(ms // 5_000):
        room.pass_time(5_000)
        room.heartbeat(member_id)


def commit_for_groups(room, count):
    for number in range(count):
        room.commit(group_id=f"group-{number}")


def test_offsets_of_a_group_that_never_had_members_expire_after_their_commit(room):
    room.commit(41)
    room.pass_time(RETENTION_MS - 1)
    assert room.committed() == 41

    room.pass_time(MINUTE_MS)

    assert room.committed() == -1


def test_a_new_commit_starts_the_retention_anew(room):
    room.commit(41)
    room.pass_time(RETENTION_MS - MINUTE_MS)
    room.commit(42)

    room.pass_time(RETENTION_MS - MINUTE_MS)

    assert room.committed() == 42


def test_offsets_of_a_group_expire_after_it_became_empty(room):
    member_id = room.lone_member()
    room.commit(41, member_id=member_id, generation_id=1)
    keep_alive(room, member_id, ms=2 * RETENTION_MS)
    room.leave((member_id, None))
    room.pass_time(RETENTION_MS - MINUTE_MS)
    assert room.committed() == 41

    room.pass_time(2 * MINUTE_MS)

    assert room.committed() == -1


def test_offsets_of_a_subscribed_topic_never_expire_while_the_group_works(room):
    member_id = room.lone_member()
    room.commit(41, member_id=member_id, generation_id=1)

    keep_alive(room, member_id, ms=2 * RETENTION_MS)

    assert room.committed() == 41


def test_offsets_of_a_topic_that_a_working_group_gave_up_expire_after_their_commit(room):
    room.commit(40, topic="returns")
    member_id = room.lone_member(protocols={"range": subscription("orders")})

    keep_alive(room, member_id, ms=RETENTION_MS + MINUTE_MS)

    assert room.committed("returns") == -1


def test_offsets_of_a_working_group_with_unreadable_subscriptions_never_expire(room):
    room.commit(41)
    member_id = room.lone_member(protocols={"range": b"garbage"})

    keep_alive(room, member_id, ms=2 * RETENTION_MS)

    assert room.committed() == 41


def test_offsets_of_a_working_group_that_does_not_consume_never_expire(room):
    room.commit(41)
    member_id = room.lone_member(protocol_type="connect", protocols={"compatible": b""})

    keep_alive(room, member_id, ms=2 * RETENTION_MS)

    assert room.committed() == 41


def test_a_client_may_give_an_offset_a_retention_of_its_own(room):
    room.commit(41, version=4, retention_time_ms=5 * MINUTE_MS)
    room.commit(42, version=4, retention_time_ms=-1, partition=1)

    room.pass_time(6 * MINUTE_MS)

    assert room.committed(partition=0) == -1
    assert room.committed(partition=1) == 42


def test_a_retention_of_its_own_outlives_a_restart(room):
    room.commit(41, version=2, retention_time_ms=5 * MINUTE_MS)
    room.restart()

    room.pass_time(6 * MINUTE_MS)

    assert room.committed() == -1


def test_a_group_is_forgotten_with_its_last_offset(room):
    room.commit(41)

    room.pass_time(RETENTION_MS + MINUTE_MS)

    assert room.listed() == []


def test_an_empty_group_without_offsets_is_forgotten(room):
    room.lone_member()
    room.pass_time(SESSION_MS)
    assert room.listed() == ["g"]

    room.pass_time(2 * MINUTE_MS)

    assert room.listed() == []


def test_what_expired_does_not_come_back_after_a_restart(room):
    room.commit(41)
    room.pass_time(RETENTION_MS + MINUTE_MS)

    room.restart()

    assert room.committed() == -1
    assert room.listed() == []


def test_time_spent_switched_off_counts(room):
    room.commit(41)
    room.now_ms += RETENTION_MS
    room.restart()

    room.pass_time(MINUTE_MS)

    assert room.committed() == -1


def test_many_groups_are_swept_a_few_at_a_time(room):
    commit_for_groups(room, 450)
    room.now_ms += RETENTION_MS
    room.restart()

    room.pass_time(MINUTE_MS)
    assert len(room.listed()) == 250
    room.pass_time(1_000)

    assert room.listed() == []
