import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.codec.batch import HEADER_SIZE, read_header, write_header
from millstream.codec.errors import CorruptBatch
from millstream.codec.records import Record, decode_records, encode_batch
from millstream.codec.scan import IS_ACCELERATED, scan_records, scan_records_in_python, shift_timestamps
from tests.codec.strategies import contiguous_records, sparse_records

compiled = pytest.mark.skipif(not IS_ACCELERATED, reason="the accelerator was not built")


def payload_of(records: list[Record]) -> bytes:
    return bytes(encode_batch(records, base_offset=1000)[HEADER_SIZE:])


@given(records=sparse_records)
def test_spans_lie_where_the_parts_of_the_records_are(records):
    payload = payload_of(records)

    spans = scan_records_in_python(payload, len(records))

    assert [(span[3], span[4]) for span in spans] == [(r.offset - 1000, r.key) for r in records]
    assert [payload[s[5] : s[6]] if s[6] >= 0 else None for s in spans] == [r.value for r in records]
    assert [span[0] for span in spans] + [len(payload)] == [0] + [span[1] for span in spans]


@compiled
@given(records=sparse_records)
def test_the_compiled_twin_finds_the_same_spans(records):
    from millstream.codec import _accelerator

    payload = payload_of(records)

    assert _accelerator.scan_records(payload, len(records)) == scan_records_in_python(payload, len(records))


def in_python(payload: bytes, count: int):
    try:
        return scan_records_in_python(payload, count)
    except CorruptBatch:
        return None


@compiled
@given(records=contiguous_records, data=st.data())
def test_the_twins_agree_on_damaged_payloads(records, data):
    from millstream.codec import _accelerator

    payload = bytearray(payload_of([Record(1000 + r.offset, *astuple(r)[1:]) for r in records]))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(payload)
    expected = in_python(damaged, len(records))

    assert _accelerator.scan_records(damaged, len(records)) == expected
    assert _accelerator.are_records(damaged, len(records), True) == (
        expected is not None
        and all(span[3] == index and span[4] is not None for index, span in enumerate(expected))
    )


@compiled
@given(payload=st.binary(max_size=100), count=st.integers(0, 5))
def test_the_twins_agree_on_arbitrary_bytes(payload, count):
    from millstream.codec import _accelerator

    assert _accelerator.scan_records(payload, count) == in_python(payload, count)


def astuple(record: Record) -> tuple[object, ...]:
    return (record.offset, record.timestamp_ms, record.key, record.value, record.headers)


@given(records=contiguous_records, shift_ms=st.integers(-(2**45), 2**45))
def test_shifted_timestamps_are_all_that_changes(records, shift_ms):
    batch = encode_batch(records)
    payload = bytes(batch[HEADER_SIZE:])

    shifted = shift_timestamps(payload, scan_records(payload, len(records)), shift_ms)

    header = read_header(batch)
    moved = header._replace(
        length=HEADER_SIZE - 12 + len(shifted), base_timestamp=header.base_timestamp - shift_ms
    )
    rebuilt = bytearray(HEADER_SIZE) + shifted
    write_header(rebuilt, 0, moved)
    assert decode_records(rebuilt) == records
