"""Groups under random joins, syncs, leaves, silence, failing disks and crashes.

The disk is slow: records wait to become durable, and replies wait for them; a crash loses what was not durable.
A plain dict of the offsets whose commit was answered is the model of what must never be lost.
"""

from types import SimpleNamespace as Struct

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from millstream.coordination.group_records import GroupKey, read_group_value, read_key
from millstream.wire.errors import ErrorCode
from tests.coordination.room import Room, commit_request, join_request, subscription, sync_request

GROUPS = st.sampled_from(["a", "a", "a", "b"])
INSTANCES = st.sampled_from([None, None, "one", "two"])
PROTOCOLS = st.sampled_from(
    [
        {"range": subscription("orders")},
        {"range": subscription("orders"), "sticky": subscription("orders")},
        {"sticky": subscription("orders"), "range": subscription("orders", "returns")},
    ]
)
JOIN_VERSIONS = st.sampled_from([0, 3, 5, 9, 9])
WHO = st.integers(0, 4)


class SlowDisk(Room):
    """A room whose records become durable only by `flush`; the next append may fail."""

    def __init__(self, **fields):
        self.durable_count = 0
        self.held = []
        self.answered = []
        self.is_failing = False
        super().__init__(**fields)

    def take(self, decision):
        if decision.records and self.is_failing:
            self.is_failing = False
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return self.take(self.coordinator.append_failed(decision, code, self.now_ms))
        for key, value in decision.records:
            self.stored.append((key, value))
            self.coordinator.apply(key, value)
        if (decision.records or decision.after_earlier) and self.durable_count < len(self.stored):
            self.held.append((len(self.stored), decision))
        else:
            self.send(decision)
        return decision

    def send(self, decision):
        super().send(decision)
        self.answered += decision.replies

    def flush(self):
        self.durable_count = len(self.stored)
        for _, decision in self.held:
            self.send(decision)
        self.held = []

    def crash(self):
        del self.stored[self.durable_count :]
        self.held = []
        self.is_failing = False
        self.start()


class GroupMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3_000]), size_max=st.sampled_from([3, 10_000]))
    def open(self, delay_ms, size_max):
        self.room = SlowDisk(group_initial_rebalance_delay_ms=delay_ms, group_max_size=size_max)
        self.asked = {}
        self.known = {"a": [], "b": []}
        self.committed = {}
        self.generations = {}

    # What clients do

    @rule(group=GROUPS, version=JOIN_VERSIONS, instance=INSTANCES, protocols=PROTOCOLS)
    def join(self, group, version, instance, protocols):
        instance = instance if version >= 5 else None
        self.ask_join(group, "", version, instance, protocols)

    @rule(group=GROUPS, who=WHO, version=JOIN_VERSIONS, protocols=PROTOCOLS)
    def join_again(self, group, who, version, protocols):
        member_id, instance = self.member(group, who)
        self.ask_join(group, member_id, version, instance, protocols)

    @rule(group=GROUPS, who=WHO)
    def sync(self, group, who):
        self.ask_sync(group, *self.member(group, who))

    @rule(group=GROUPS)
    def all_sync(self, group):
        for member in list(self.members(group).values()):
            self.ask_sync(group, member.member_id, member.group_instance_id)

    @rule(group=GROUPS, protocols=PROTOCOLS)
    def all_join_again(self, group, protocols):
        for member in list(self.members(group).values()):
            self.ask_join(group, member.member_id, 9, member.group_instance_id, protocols)

    @rule(group=GROUPS, protocols=PROTOCOLS)
    def three_join(self, group, protocols):
        """Bring the group to where its leader assigns, with followers."""
        for instance in (None, None, "one"):
            self.ask_join(group, "", 9 if instance else 3, instance, protocols)
        self.all_join_again(group, protocols)

    @rule(group=GROUPS)
    def all_but_the_leader_sync(self, group):
        for member in list(self.members(group).values()):
            if member.member_id != self.room.group(group).leader:
                self.ask_sync(group, member.member_id, member.group_instance_id)

    @rule(group=GROUPS)
    def all_send_heartbeats(self, group):
        for who in range(len(self.members(group))):
            self.heartbeat(group, who, False)

    @rule(group=GROUPS, who=WHO, is_late=st.booleans())
    def heartbeat(self, group, who, is_late):
        member_id, instance = self.member(group, who)
        generation = self.room.generation(group) - is_late
        request = Struct(
            group_id=group, member_id=member_id, generation_id=generation, group_instance_id=instance
        )
        self.ask("heartbeat", request, 4)

    @rule(group=GROUPS, who=WHO)
    def leave(self, group, who):
        member_id, instance = self.member(group, who)
        leavers = [Struct(member_id=member_id, group_instance_id=instance, reason=None)]
        self.ask("leave", Struct(group_id=group, members=leavers), 5)

    @rule(
        group=GROUPS,
        who=WHO,
        is_alone=st.booleans(),
        partition=st.integers(0, 2),
        offset=st.integers(0, 1_000),
    )
    def commit(self, group, who, is_alone, partition, offset):
        member_id, instance = ("", None) if is_alone else self.member(group, who)
        generation = -1 if is_alone else self.room.generation(group)
        request = commit_request(
            offset,
            group_id=group,
            member_id=member_id,
            generation_id=generation,
            group_instance_id=instance,
            partition=partition,
        )
        self.ask("commit_offsets", request, 9, place=(group, partition), offset=offset)

    @rule(group=GROUPS, partition=st.integers(0, 2))
    def fetch(self, group, partition):
        topics = [Struct(name="orders", partition_indexes=[partition])]
        request = Struct(groups=[Struct(group_id=group, topics=topics)], require_stable=True)
        self.ask("fetch_offsets", request, 9, place=(group, partition))

    @rule(group=GROUPS, partition=st.integers(0, 2))
    def delete_offset(self, group, partition):
        topics = [Struct(name="orders", partitions=[Struct(partition_index=partition)])]
        self.ask("delete_offsets", Struct(group_id=group, topics=topics), 0, place=(group, partition))

    @rule(group=GROUPS)
    def delete_group(self, group):
        self.ask("delete_groups", Struct(groups_names=[group]), 2, group=group)

    # What happens to the node

    @rule()
    def flush(self):
        self.room.flush()
        self.hear()

    @rule(ms=st.sampled_from([1, 3_000, 9_999, 10_000, 60_000, 300_000]))
    def pass_time(self, ms):
        self.room.pass_time(ms)
        self.hear()

    @rule()
    def next_append_fails(self):
        self.room.is_failing = True

    @rule()
    def crash(self):
        self.room.crash()
        self.asked.clear()
        self.generations = {group: self.durable_generations(group)[-1] for group in ("a", "b")}
        assert {
            (group_id, partition): found.offset
            for group_id, _, partition, found in self.room.coordinator.committed_offsets()
        } == self.committed

    # What always holds

    @invariant()
    def a_group_is_consistent(self):
        for group in self.room.coordinator.groups.values():
            members = group.members
            assert (group.leader in members) if members else group.leader is None
            assert group.joined_count == sum(member.join is not None for member in members.values())
            assert group.static_ids == {
                member.group_instance_id: member.member_id for member in members.values() if member.is_static
            }
            assert not members.keys() & group.pending.keys()
            assert group.pending_sync <= members.keys()
            assert not members or group.state.value != "Empty"
            assert members or group.state.value in ("Empty", "PreparingRebalance")

    @invariant()
    def a_generation_never_goes_back(self):
        found = {group_id: group.generation for group_id, group in self.room.coordinator.groups.items()}
        assert all(found[group_id] >= self.generations.get(group_id, 0) for group_id in found)
        self.generations = found

    @invariant()
    def whoever_owes_nothing_has_a_deadline(self):
        for group in self.room.coordinator.groups.values():
            for member in group.members.values():
                assert member.is_excused or member.session.deadline_ms is not None

    def teardown(self):
        """Time answers everybody, and empties every group."""
        if not hasattr(self, "room"):
            return
        for _ in range(8):
            self.room.pass_time(300_000)
            self.flush()
        assert self.asked == {}
        assert all(not group.members for group in self.room.coordinator.groups.values())

    # How it is done

    def ask(self, kind, request, version, **about):
        token = next(self.room._tokens)
        self.asked[token] = Struct(kind=kind, request=request, version=version, **about)
        self.room.take(self.room.decide(kind, request, version, token))
        self.hear()

    def ask_join(self, group, member_id, version, instance, protocols):
        request = join_request(group, member_id, group_instance_id=instance, protocols=protocols)
        self.ask("join", request, version, instance=instance)

    def ask_sync(self, group, member_id, instance):
        generation = self.room.generation(group)
        assignments = {
            member.member_id: assigned(generation, member.member_id, member.group_instance_id)
            for member in self.members(group).values()
        }
        request = sync_request(
            group, member_id, generation_id=generation, group_instance_id=instance, assignments=assignments
        )
        self.ask("sync", request, 5, instance=instance)

    def members(self, group):
        found = self.room.coordinator.groups.get(group)
        return {} if found is None else found.members

    def member(self, group, who):
        """A member by its place, or else someone who once was told an id."""
        present = [(member.member_id, member.group_instance_id) for member in self.members(group).values()]
        known = [*present[:4], *self.known[group], ("ghost", None)]
        return known[who % len(known)]

    def durable_generations(self, group):
        """Every generation of the group that a restart could bring back; 0 where it was deleted."""
        return [0] + [
            0 if value is None else read_group_value(value).generation
            for key, value in self.room.stored[: self.room.durable_count]
            if read_key(key) == GroupKey(group)
        ]

    def hear(self):
        """Look at every reply in the order it was sent."""
        answered, self.room.answered = self.room.answered, []
        for token, body in answered:
            about = self.asked.pop(token)
            getattr(self, f"hear_{about.kind}", lambda *_: None)(about, body)

    def hear_join(self, about, body):
        if body["error_code"] in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.known[about.request.group_id].insert(0, (body["member_id"], about.instance))
            del self.known[about.request.group_id][6:]
        if body["error_code"] == ErrorCode.NONE:
            is_leader = body["leader"] == body["member_id"]
            assert bool(body["members"]) == is_leader
            assert not body["skip_assignment"] or is_leader
            ids = [member["member_id"] for member in body["members"]]
            assert not ids or body["member_id"] in ids

    def hear_sync(self, about, body):
        request = about.request
        if body["error_code"] == ErrorCode.NONE:
            own = assigned(request.generation_id, request.member_id, about.instance)
            assert body["assignment"] == own
            assert request.generation_id in self.durable_generations(request.group_id)

    def hear_commit_offsets(self, about, body):
        if body["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE:
            self.committed[about.place] = about.offset

    def hear_fetch_offsets(self, about, body):
        found = body["groups"][0]["topics"][0]["partitions"][0]["committed_offset"]
        assert found == self.committed.get(about.place, -1)

    def hear_delete_offsets(self, about, body):
        if (
            body["error_code"] == ErrorCode.NONE
            and body["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE
        ):
            self.committed.pop(about.place, None)

    def hear_delete_groups(self, about, body):
        if body["results"][0]["error_code"] == ErrorCode.NONE:
            for place in [place for place in self.committed if place[0] == about.group]:
                del self.committed[place]


def assigned(generation, member_id, instance):
    return f"{generation}:{instance or member_id}".encode()


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
