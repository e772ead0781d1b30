import json
import os
import resource
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.codec.batch import HEADER_SIZE, crc_is_valid, iter_headers, read_header, seal
from millstream.codec.compression import Compression
from millstream.codec.records import ControlKind, Record, control_batch, decode_records, encode_batch
from millstream.log.compaction import CompactionPlan, CompactionResult, compact
from millstream.log.compaction_walk import SourceSegment
from millstream.log.errors import LogIOError
from millstream.log.index import OFFSET_KEY, TIME_KEY, load_index

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000


class LogFiles:
    """Segments on disk, compacted as the log would have it done: new files take the place of their sources."""

    def __init__(self, directory):
        self.directory = directory
        self.segments = []
        self.end_offset = 0

    def add_segment(self, *batches):
        """Batches behind each other from the end offset on; each a list of (key, value) or a ready batch."""
        made = []
        for batch in batches:
            made.append(bytes(batch if isinstance(batch, (bytes, bytearray)) else self.batch(*batch)))
            self.end_offset = max(self.end_offset, read_header(made[-1]).next_offset)
        base_offset = read_header(made[0]).base_offset
        content = b"".join(made)
        self._path(base_offset).write_bytes(content)
        self.segments.append(
            SourceSegment(base_offset=base_offset, next_offset=self.end_offset, size=len(content))
        )
        return self

    def batch(self, *pairs, **options):
        """A batch for the end offset, which it moves."""
        records = [
            Record(self.end_offset + index, 1_000_000 + self.end_offset + index, key, value)
            for index, (key, value) in enumerate(pairs)
        ]
        made = encode_batch(records, base_offset=self.end_offset, **options)
        self.end_offset += len(pairs)
        return made

    def marker(self, kind, producer_id):
        made = control_batch(
            kind,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=1_000_000,
            base_offset=self.end_offset,
        )
        self.end_offset += 1
        return made

    def plan(self, **changes):
        plan = CompactionPlan(
            directory=str(self.directory),
            segments=tuple(self.segments),
            first_dirty_offset=0,
            upto_offset=self.end_offset,
            now_ms=NOW_MS,
            delete_retention_ms=DAY_MS,
            segment_bytes=1,
            index_interval=4096,
        )
        return replace(plan, **changes)

    def compact(self, **changes):
        result = compact(self.plan(**changes))
        self.apply(result)
        return result

    def apply(self, result):
        for new in result.segments:
            for base_offset in new.sources:
                self._path(base_offset).unlink()
            os.rename(f"{self._path(new.base_offset)}.cleaned", self._path(new.base_offset))
            at = next(i for i, old in enumerate(self.segments) if old.base_offset == new.base_offset)
            self.segments[at : at + len(new.sources)] = [
                SourceSegment(base_offset=new.base_offset, next_offset=new.next_offset, size=new.size)
            ]

    def content(self, number):
        return self._path(self.segments[number].base_offset).read_bytes()

    def batches(self):
        return [
            content[position : position + header.size]
            for number in range(len(self.segments))
            for content in [self.content(number)]
            for position, header in iter_headers(content, 0, len(content))
        ]

    def records(self):
        return [record for batch in self.batches() for record in decode_records(batch)]

    def pairs(self):
        """offset → (key, value) of every record."""
        return {record.offset: (record.key, record.value) for record in self.records()}

    def _path(self, base_offset):
        return self.directory / f"{base_offset:020d}.log"


@pytest.fixture
def log(tmp_path):
    return LogFiles(tmp_path)


# ---------------------------------------------------------------- the last value wins


def test_the_last_value_of_each_key_stays_at_its_offset(log):
    log.add_segment([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
    log.add_segment([(b"c", b"4"), (b"b", b"5"), (b"d", b"6")])

    result = log.compact()

    assert log.pairs() == {2: (b"a", b"3"), 3: (b"c", b"4"), 4: (b"b", b"5"), 5: (b"d", b"6")}
    assert (result.records_read, result.records_kept, result.cleaned_to) == (6, 4, 6)


def test_a_record_keeps_all_its_parts(log):
    records = [Record(0, 77, b"k", b"old"), Record(1, 55, b"k", b"new", (("trace", b"1"), ("none", None)))]
    log.add_segment(encode_batch(records))

    log.compact()

    assert log.records() == records[1:]


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_that_loses_records_keeps_everything_else(log, compression):
    log.add_segment(
        encode_batch(
            [
                Record(0, 90, b"a", b"1" * 100),
                Record(1, 50, b"b", b"2" * 100),
                Record(2, 60, b"b", b"3" * 100),
            ],
            compression=compression,
            producer_id=7,
            producer_epoch=1,
            base_sequence=40,
            leader_epoch=5,
        ),
    )
    log.add_segment([(b"a", b"4")])

    log.compact()

    header = read_header(log.batches()[0])
    assert crc_is_valid(log.batches()[0], 0, header.size)
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
    assert (header.last_sequence, header.leader_epoch, header.compression) == (42, 5, compression)
    assert (header.base_timestamp, header.max_timestamp) == (90, 60)


def test_append_time_stays(log):
    log.add_segment(
        encode_batch([Record(0, 90, b"a", b"1"), Record(1, 50, b"b", b"2")], log_append_time=True),
        [(b"a", b"3")],
    )

    log.compact()

    assert log.records()[0] == Record(1, 90, b"b", b"2")


def test_batches_and_segments_that_lose_nothing_stay_byte_for_byte(log):
    log.add_segment(
        log.batch((b"a", b"old")),
        log.batch((b"b", b"1"), (b"c", b"2"), compression=Compression.GZIP, level=1),
    )
    log.add_segment(log.batch((b"a", b"new"), (b"d", b"3"), compression=Compression.ZSTD))
    untouched, second = log.batches()[1], log.content(1)

    result = log.compact()

    assert log.batches()[0] == untouched
    assert log.content(1) == second
    assert [segment.sources for segment in result.segments] == [(0,)]


def test_nothing_is_written_where_nothing_changes(log):
    log.add_segment([(b"a", b"1")], [(b"b", b"2")])
    log.add_segment([(b"c", b"3")])
    before = sorted(log.directory.iterdir())

    result = log.compact()

    assert result.segments == ()
    assert result.bytes_before == result.bytes_after
    assert sorted(log.directory.iterdir()) == before


def test_records_without_a_key_stay(log):
    log.add_segment([(None, b"1"), (b"a", b"2"), (None, None), (b"a", b"3")])

    log.compact()

    assert log.pairs() == {0: (None, b"1"), 2: (None, None), 3: (b"a", b"3")}


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 300])
def test_keys_of_any_length_are_told_apart(log, length):
    first, second = b"x" * length, b"x" * length + b"y"
    log.add_segment([(first, b"1"), (second, b"2"), (first, b"3"), (second, b"4")])

    log.compact()

    assert log.pairs() == {2: (first, b"3"), 3: (second, b"4")}


def test_compacting_again_drops_what_newer_segments_replaced(log):
    log.add_segment([(b"a", b"1"), (b"b", b"2")])
    first = log.compact()
    log.add_segment([(b"a", b"3")])

    second = log.compact(first_dirty_offset=first.cleaned_to)

    assert log.pairs() == {1: (b"b", b"2"), 2: (b"a", b"3")}
    assert second.cleaned_to == 3


# ---------------------------------------------------------------- bounds


def test_nothing_from_the_upper_bound_on_is_touched(log):
    log.add_segment([(b"a", b"1"), (b"a", b"2")], [(b"a", b"3"), (b"a", b"4")])
    log.add_segment([(b"a", b"5"), (b"a", b"6")])

    result = log.compact(upto_offset=2)

    assert sorted(log.pairs()) == [1, 2, 3, 4, 5]
    assert result.cleaned_to == 2


def test_a_batch_across_the_upper_bound_is_not_touched(log):
    log.add_segment([(b"a", b"1"), (b"b", b"2")], [(b"a", b"3"), (b"a", b"4")])

    log.compact(upto_offset=3)

    assert sorted(log.pairs()) == [0, 1, 2, 3]


def test_more_keys_than_fit_are_compacted_in_several_runs(log):
    log.add_segment(*[[(b"k%d" % (number % 6), b"v%d" % number)] for number in range(12)])

    first = log.compact(keys_max=4)
    second = log.compact(keys_max=4, first_dirty_offset=first.cleaned_to)
    third = log.compact(keys_max=4, first_dirty_offset=second.cleaned_to)

    assert (first.cleaned_to, second.cleaned_to, third.cleaned_to) == (4, 8, 12)
    assert sorted(log.pairs()) == [6, 7, 8, 9, 10, 11]


def test_neighbours_are_merged_up_to_the_size_of_a_segment(log):
    log.add_segment([(b"a", b"1")]).add_segment([(b"b", b"2")]).add_segment([(b"a", b"3")])
    two_segments = log.segments[0].size + log.segments[1].size

    result = log.compact(segment_bytes=two_segments)

    assert [segment.sources for segment in result.segments] == [(0, 1)]
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert log.pairs() == {1: (b"b", b"2"), 2: (b"a", b"3")}


def test_segments_too_far_apart_for_one_index_are_not_merged(log):
    log.add_segment([(b"a", b"1")])
    log.end_offset = 2**31
    log.add_segment([(b"b", b"2")])

    assert log.compact(segment_bytes=10**9).segments == ()


def test_the_last_batch_of_a_file_stays_so_that_its_range_is_known(log):
    log.add_segment([(b"a", b"1")], [(b"a", b"2"), (b"b", b"3")])
    log.add_segment([(b"a", b"4"), (b"b", b"5")])

    result = log.compact()

    [emptied] = [read_header(batch) for batch in log.batches()[:-1]]
    assert (emptied.base_offset, emptied.next_offset, emptied.record_count) == (1, 3, 0)
    assert emptied.size == HEADER_SIZE
    assert crc_is_valid(log.batches()[0], 0, HEADER_SIZE)
    assert result.segments[0].next_offset == 3


def test_an_emptied_batch_goes_once_it_is_last_no_more(log):
    log.add_segment([(b"a", b"1")]).add_segment([(b"a", b"2")])
    log.compact()

    log.compact(segment_bytes=10**9)

    assert [read_header(batch).base_offset for batch in log.batches()] == [1]


def test_batches_that_producers_rest_on_stay_without_their_records(log):
    log.add_segment(
        log.batch((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=3),
        log.batch(
            (b"a", b"2"), producer_id=7, producer_epoch=1, base_sequence=4, compression=Compression.LZ4
        ),
        log.batch((b"a", b"3"), producer_id=8, producer_epoch=0, base_sequence=0),
        log.batch((b"a", b"4")),
    )

    log.compact(producer_offsets=(1,))

    kept = [read_header(batch) for batch in log.batches()]
    assert [(header.base_offset, header.record_count) for header in kept] == [(1, 0), (3, 1)]
    assert (kept[0].producer_id, kept[0].producer_epoch, kept[0].base_sequence) == (7, 1, 4)
    assert kept[0].last_sequence == 4
    assert decode_records(log.batches()[0]) == []


# ---------------------------------------------------------------- tombstones


def test_a_tombstone_outlives_the_records_before_it(log):
    log.add_segment([(b"a", b"1"), (b"a", None), (b"b", b"2")])

    result = log.compact()

    assert log.pairs() == {1: (b"a", None), 2: (b"b", b"2")}
    assert result.next_delete_horizon_ms == NOW_MS + DAY_MS


def test_a_tombstone_gets_its_horizon_when_first_compacted_and_only_then(log):
    log.add_segment([(b"a", None), (b"b", b"1")])

    log.compact()
    marked = log.batches()
    log.compact(first_dirty_offset=2, now_ms=NOW_MS + DAY_MS - 1)

    assert read_header(marked[0]).delete_horizon_ms == NOW_MS + DAY_MS
    assert log.batches() == marked


def test_a_horizon_changes_no_timestamp(log):
    records = [
        Record(0, 10, b"a", None, (("h", b"x"),)),
        Record(1, 5, b"b", b"1"),
        Record(2, 2**45, b"c", b"2"),
    ]
    log.add_segment(encode_batch(records, compression=Compression.SNAPPY))

    log.compact()

    assert log.records() == records
    assert read_header(log.batches()[0]).max_timestamp == 2**45


def test_a_tombstone_goes_when_its_horizon_is_reached(log):
    log.add_segment([(b"a", None), (b"b", b"1")], [(b"c", None)])
    log.add_segment([(b"d", b"2")])
    log.compact()

    result = log.compact(first_dirty_offset=4, now_ms=NOW_MS + DAY_MS)

    assert log.pairs() == {1: (b"b", b"1"), 3: (b"d", b"2")}
    assert result.next_delete_horizon_ms is None


def test_a_tombstone_that_was_never_compacted_stays_however_old_it_is(log):
    log.add_segment(encode_batch([Record(0, 1, b"a", None), Record(1, 1, b"b", b"1")]))

    log.compact(delete_retention_ms=0)

    assert log.pairs() == {0: (b"a", None), 1: (b"b", b"1")}


def test_a_replaced_tombstone_goes_at_once(log):
    log.add_segment([(b"a", None), (b"b", b"1"), (b"a", b"2")])

    result = log.compact()

    assert log.pairs() == {1: (b"b", b"1"), 2: (b"a", b"2")}
    assert result.next_delete_horizon_ms is None


def test_tombstones_may_be_kept_for_ever(log):
    log.add_segment([(b"a", None), (b"b", b"1")])

    log.compact(delete_retention_ms=2**63 - 1)
    log.compact(first_dirty_offset=2, now_ms=2**50)

    assert log.pairs() == {0: (b"a", None), 1: (b"b", b"1")}


# ---------------------------------------------------------------- transactions


def transactional(producer_id):
    return {"is_transactional": True, "producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}


def test_a_committed_transaction_replaces_older_values(log):
    log.add_segment(
        log.batch((b"a", b"1")),
        log.batch((b"a", b"2"), **transactional(7)),
        log.marker(ControlKind.COMMIT, 7),
    )

    log.compact()

    assert [read_header(batch).base_offset for batch in log.batches()] == [1, 2]


def test_an_aborted_transaction_replaces_nothing_and_goes(log):
    log.add_segment(
        log.batch((b"a", b"1")),
        log.batch((b"a", b"2"), **transactional(7)),
        log.batch((b"b", b"3"), **transactional(8)),
        log.marker(ControlKind.ABORT, 7),
        log.marker(ControlKind.COMMIT, 8),
    )

    log.compact()

    assert [read_header(batch).base_offset for batch in log.batches()] == [0, 2, 3, 4]


def test_nothing_from_an_undecided_transaction_on_is_touched(log):
    log.add_segment(
        log.batch((b"a", b"1")),
        log.batch((b"a", b"2")),
        log.batch((b"a", b"3"), **transactional(7)),
        log.batch((b"a", b"4")),
        log.batch((b"b", b"5"), **transactional(8)),
        log.marker(ControlKind.ABORT, 8),
    )

    result = log.compact()

    assert [read_header(batch).base_offset for batch in log.batches()] == [1, 2, 3, 4, 5]
    assert result.cleaned_to == 2


def test_a_marker_goes_like_a_tombstone_once_its_records_are_gone(log):
    log.add_segment(
        log.batch((b"a", b"1"), **transactional(7)),
        log.marker(ControlKind.COMMIT, 7),
        log.batch((b"a", b"2")),
    )
    log.compact()
    log.compact(first_dirty_offset=3)
    marked = log.batches()

    log.compact(first_dirty_offset=3, now_ms=NOW_MS + DAY_MS)

    assert [read_header(batch).delete_horizon_ms for batch in marked] == [NOW_MS + DAY_MS, None]
    assert decode_records(marked[0])[0].timestamp_ms == 1_000_000
    assert log.pairs() == {2: (b"a", b"2")}


# ---------------------------------------------------------------- damage


def damaged_log(log, damage):
    log.add_segment([(b"a", b"1")], [(b"b", b"2"), (b"a", b"3")], [(b"c", b"4")], [(b"a", b"5")])
    batch = log.batches()[1]
    start = log.content(0).index(batch)
    content = bytearray(log.content(0))
    content[start : start + len(batch)] = damage(batch)
    log._path(0).write_bytes(content)
    return start, bytes(content[start : start + len(batch)])


def flipped_value(batch):
    return batch[:-3] + bytes([batch[-3] ^ 1]) + batch[-2:]


def wrong_length(batch):
    return batch[:8] + b"\x00\x00\x00\x05" + batch[12:]


def huge_length(batch):
    return batch[:8] + b"\x7f\xff\xff\xff" + batch[12:]


def zeros(batch):
    return bytes(len(batch))


@pytest.mark.parametrize("damage", [flipped_value, wrong_length, huge_length, zeros])
def test_damaged_bytes_are_carried_over_as_they_are(log, damage):
    _, raw = damaged_log(log, damage)

    result = log.compact()

    content = log.content(0)
    [(position, end, first_offset, next_offset)] = result.segments[0].damaged
    assert content[position:end] == raw
    assert (first_offset, next_offset) == (1, 3)
    assert [read_header(content, end).base_offset, read_header(content, end).record_count] == [3, 1]
    assert log.segments[0].size == len(content)


def test_damage_at_the_end_of_a_segment_is_carried_over(log):
    log.add_segment([(b"a", b"1")], [(b"b", b"2")])
    log.add_segment([(b"a", b"3")])
    batch = log.batches()[1]
    log._path(0).write_bytes(log.content(0)[: -len(batch)] + zeros(batch))

    result = log.compact()

    assert result.segments[0].damaged == ((0, len(batch), 1, 2),)
    assert log.content(0) == zeros(batch)


def test_a_segment_with_damage_only_is_left_alone(log):
    log.add_segment([(b"a", b"1")])
    log._path(0).write_bytes(bytes(log.segments[0].size))

    assert log.compact().segments == ()


def test_an_intact_batch_whose_records_cannot_be_read_is_kept(log):
    strange = bytearray(log.batch((b"a", b"1"), (b"b", b"2")))
    strange[22] |= 5  # a compression that is not assigned
    seal(strange, 0, len(strange))
    log.add_segment(bytes(strange), [(b"a", b"3")], [(b"c", b"4")], [(b"c", b"5")])

    log.compact()

    assert log.batches()[0] == strange
    assert len(log.batches()) == 3


# ---------------------------------------------------------------- files


def test_indexes_are_written_beside_the_new_file(log):
    log.add_segment(*[[(b"k%d" % (number % 50), b"v" * 100)] for number in range(100)])

    result = compact(log.plan(index_interval=1000))

    [new] = result.segments
    offsets, covered = load_index(f"{log.directory}/{0:020d}.index.cleaned", OFFSET_KEY)
    times, _ = load_index(f"{log.directory}/{0:020d}.timeindex.cleaned", TIME_KEY)
    content = (log.directory / f"{0:020d}.log.cleaned").read_bytes()
    assert covered == new.size == len(content)
    assert len(offsets) == len(times) > 5
    assert [read_header(content, position).base_offset for position in offsets.positions] == list(
        offsets.keys
    )
    assert (new.max_timestamp, new.max_timestamp_offset) == (1_000_099, 99)


def test_the_segments_themselves_are_not_changed(log):
    log.add_segment([(b"a", b"1")], [(b"a", b"2")])
    before = log.content(0)

    compact(log.plan())

    assert log.content(0) == before


def test_a_missing_segment_fails_and_leaves_no_file(log):
    log.add_segment([(b"a", b"1")], [(b"a", b"2")]).add_segment([(b"b", b"3")])
    plan = log.plan()
    log._path(2).unlink()

    with pytest.raises(LogIOError):
        compact(plan)

    assert [path.name for path in log.directory.iterdir()] == [f"{0:020d}.log"]


def test_plan_and_result_survive_json(log):
    log.add_segment([(b"a", b"1")], [(b"a", b"2")])
    plan = log.plan(producer_offsets=(0, 1))
    result = compact(plan)

    assert CompactionPlan.from_json(plan.to_json()) == plan
    assert CompactionResult.from_json(result.to_json()) == result


def run_compactor(text, **options):
    command = [sys.executable, "-m", "millstream.log.compactor"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, **options)


def test_the_process_takes_a_plan_and_gives_the_result(log):
    log.add_segment([(b"a", b"1"), (b"b", b"2")], [(b"a", b"3")])

    finished = run_compactor(log.plan().to_json())
    log.apply(CompactionResult.from_json(finished.stdout))

    assert (finished.returncode, finished.stderr) == (0, "")
    assert log.pairs() == {1: (b"b", b"2"), 2: (b"a", b"3")}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"segments": []}'])
def test_the_process_refuses_what_is_no_plan_in_one_line(text):
    finished = run_compactor(text)

    assert finished.returncode == 1
    assert finished.stdout == ""
    assert len(finished.stderr.splitlines()) == 1


def test_the_process_says_in_one_line_what_went_wrong(log):
    log.add_segment([(b"a", b"1")], [(b"a", b"2")])
    plan = json.loads(log.plan().to_json()) | {"directory": "/nowhere/at all"}

    finished = run_compactor(json.dumps(plan))

    assert finished.returncode == 1
    assert len(finished.stderr.splitlines()) == 1
    assert "/nowhere/at all" in finished.stderr


def test_a_disk_that_takes_no_more_fails_the_run_and_leaves_no_file(log):
    log.add_segment(*[[(b"k%d" % number, b"v" * 1000)] for number in range(100)], [(b"k0", b"new")])

    finished = run_compactor(
        log.plan().to_json(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    )

    assert finished.returncode == 1
    assert len(finished.stderr.splitlines()) == 1
    assert [path.name for path in log.directory.iterdir()] == [f"{0:020d}.log"]


# ---------------------------------------------------------------- against a model

keys = st.sampled_from([b"a", b"b", b"c", b"a key that is longer than sixteen bytes"])
values = st.none() | st.binary(max_size=3)
drawn_batches = st.tuples(
    st.lists(st.tuples(keys, values), min_size=1, max_size=4), st.sampled_from(list(Compression))
)
drawn_segments = st.lists(st.lists(drawn_batches, min_size=1, max_size=4), min_size=1, max_size=3)


def as_table(pairs):
    """What a reader who follows the log from its start ends up with."""
    table = {}
    for _, (key, value) in sorted(pairs.items()):
        table[key] = value
    return {key: value for key, value in table.items() if value is not None}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rounds=st.lists(
        st.tuples(drawn_segments, st.integers(0, 3), st.integers(0, 2 * DAY_MS), st.integers(1, 2000)),
        min_size=1,
        max_size=4,
    ),
    keys_max=st.sampled_from([2, 1000]),
)
def test_a_reader_of_the_compacted_log_ends_up_with_the_same_table(tmp_path_factory, rounds, keys_max):
    log = LogFiles(tmp_path_factory.mktemp("log"))
    everything = {}
    cleaned_to = 0
    now_ms = NOW_MS

    for segments, held_back, passed_ms, segment_bytes in rounds:
        for segment in segments:
            log.add_segment(*[log.batch(*pairs, compression=kind) for pairs, kind in segment])
        everything |= {record.offset: record for record in log.records()}
        now_ms += passed_ms
        before = log.pairs()
        upto_offset = max(cleaned_to, log.end_offset - held_back)

        result = log.compact(
            first_dirty_offset=cleaned_to,
            upto_offset=upto_offset,
            now_ms=now_ms,
            keys_max=keys_max,
            segment_bytes=segment_bytes,
        )

        after = log.pairs()
        cleaned = [record.key for record in log.records() if record.offset < result.cleaned_to]
        assert as_table(after) == as_table(before)
        assert log.records() == [everything[offset] for offset in after]
        assert list(after) == sorted(after)
        assert {o: p for o, p in after.items() if o >= upto_offset} == {
            o: p for o, p in before.items() if o >= upto_offset
        }
        assert cleaned_to <= result.cleaned_to <= upto_offset
        assert len(cleaned) == len(set(cleaned))
        cleaned_to = result.cleaned_to
