"""From a point in time to an offset, exact to the record."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.codec.batch import read_header
from millstream.codec.compression import Compression
from millstream.codec.records import Record, encode_batch
from tests.log.box import Box, append

BATCHES = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), max_size=12)


def append_times(log, times, **options):
    batch = encode_batch([Record(i, time, b"k", b"v" * 40) for i, time in enumerate(times)], **options)
    return log.append(batch, read_header(batch))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES, asked=st.integers(-1, 60), limit=st.integers(0, 12), start=st.integers(0, 5))
def test_the_first_record_not_older_is_found(tmp_path_factory, batches, asked, limit, start):
    box = Box(tmp_path_factory.mktemp("log"), segment_bytes=1_024, index_interval_bytes=0)
    log = box.open()
    records, bounds = [], [0]
    for times in batches:
        base = append_times(log, times)
        records += [(base + i, time) for i, time in enumerate(times)]
        bounds.append(log.end_offset)
    limit = bounds[min(limit, len(bounds) - 1)]
    log.advance(log.end_offset)
    log.delete_before(min(start, log.end_offset))
    seen = [(offset, time) for offset, time in records if log.start_offset <= offset < limit]

    found = log.offset_for_timestamp(asked, limit=limit)
    newest = log.max_timestamp_offset(limit)

    expected = next(((offset, time) for offset, time in seen if time >= asked), None)
    assert (found and (found.offset, found.timestamp_ms)) == expected
    latest = max((time for _, time in seen), default=None)
    expected_newest = next(((offset, time) for offset, time in seen if time == latest), None)
    assert (newest and (newest.offset, newest.timestamp_ms)) == expected_newest
    box.drop()


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_are_looked_into(log, compression):
    append_times(log, [10, 20, 30], compression=compression)

    assert log.offset_for_timestamp(15, limit=3).offset == 1


def test_records_with_append_time_have_the_time_of_their_batch(log):
    append_times(log, [10, 20, 30], log_append_time=True)

    assert log.offset_for_timestamp(15, limit=3)[:2] == (30, 0)


def test_the_epoch_of_the_record_is_told(box):
    append_times(box.open(), [10])
    log = box.restart()
    append_times(log, [20])

    assert [log.offset_for_timestamp(time, limit=2).leader_epoch for time in (5, 15)] == [1, 2]


@pytest.mark.parametrize("reopen", ["crash", "restart"])
def test_times_are_found_after_a_start(box, reopen):
    log = box.open()
    for time in range(0, 1_000, 10):
        append_times(log, [time, time + 5])

    log = getattr(box, reopen)()

    assert log.offset_for_timestamp(501, limit=200)[:2] == (505, 101)
    assert log.max_timestamp_offset(200)[:2] == (995, 199)
    assert log.max_timestamp_offset(100)[:2] == (495, 99)


def test_an_empty_log_has_no_times(log):
    assert (log.offset_for_timestamp(0, limit=0), log.max_timestamp_offset(0)) == (None, None)


def test_records_without_a_time_are_not_found(log):
    append(log, b"a", timestamp_ms=-1)

    assert (log.offset_for_timestamp(0, limit=1), log.max_timestamp_offset(1)) == (None, None)


def test_damaged_batches_are_stepped_over(box):
    log = box.open()
    for time in (10, 20, 30):
        append_times(log, [time])
    box.drop()
    path = box.segment_paths()[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    log = box.open(clean=False)

    assert log.offset_for_timestamp(15, limit=3)[:2] == (30, 2)
