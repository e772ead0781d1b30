"""Records as anyone might send them, for Hypothesis."""

from dataclasses import replace

from hypothesis import strategies as st

from millstream.codec.records import Record

timestamps_ms = st.integers(-1, 2**45)
optional_bytes = st.none() | st.binary(max_size=200)
header_names = st.binary(max_size=8).map(lambda name: name.decode("utf-8", "surrogateescape"))
headers = st.lists(st.tuples(header_names, optional_bytes), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), timestamps_ms, optional_bytes, optional_bytes, headers)


def _number(drawn: list[Record], gaps: list[int], base_offset: int) -> list[Record]:
    offset = base_offset - 1
    numbered = []
    for record, gap in zip(drawn, gaps, strict=False):
        offset += gap
        numbered.append(replace(record, offset=offset))
    return numbered


contiguous_records = st.lists(records, min_size=1, max_size=12).map(lambda drawn: _number(drawn, [1] * 12, 0))
"""Offsets 0, 1, 2, …: what a producer sends."""

sparse_records = st.builds(
    _number,
    st.lists(records, max_size=12),
    st.lists(st.integers(1, 300), min_size=12, max_size=12),
    st.just(1000),
)
"""Offsets from 1000 up with gaps: what compaction leaves."""
