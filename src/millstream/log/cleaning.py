"""When to compact a log, and how the result takes its place.

Why: compaction runs in another process while the log goes on; deciding and swapping stay here, with the owner of
the log.
The swap: `BASE.log.cleaned` (a start discards it) is renamed to `BASE-END.swap` (a start completes it), the old
segments are set aside, and the swap file takes the name of the first of them.
Invariants: only sealed, local segments below the high watermark are compacted, from the first on; a result is
refused if any of its sources has changed or gone since it was planned.
"""

import os
from collections.abc import Sequence
from contextlib import suppress

from millstream.log.compaction import CompactionPlan
from millstream.log.compaction_output import CompactedSegment, cleaned_paths
from millstream.log.compaction_walk import SourceSegment
from millstream.log.files import sync_directory
from millstream.log.inventory import complete_swap, swap_name
from millstream.log.producers import ProducerStates
from millstream.log.retention import newest_ms
from millstream.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Damage, Segment
from millstream.model.topic_config import INT64_MAX, TopicConfig


def plan_compaction(
    sealed: Sequence[Segment],
    config: TopicConfig,
    producers: ProducerStates,
    *,
    cleaned_to: int,
    delete_horizon_ms: int,
    high_watermark: int,
    now_ms: int,
) -> CompactionPlan | None:
    """What to compact now; None as long as too little has changed. `delete_horizon_ms` is -1 without one."""
    upto = _settled_end(sealed, config.min_compaction_lag_ms, high_watermark=high_watermark, now_ms=now_ms)
    ready = [segment for segment in sealed if segment.next_offset <= upto]
    if not ready:
        return None
    dirty = [segment for segment in ready if segment.next_offset > cleaned_to]
    dirty_bytes = sum(segment.size for segment in dirty)
    total_bytes = sum(segment.size for segment in ready)
    is_dirty = dirty_bytes > 0 and dirty_bytes >= config.min_cleanable_dirty_ratio * total_bytes
    is_overdue = (
        config.max_compaction_lag_ms != INT64_MAX
        and dirty_bytes > 0
        and now_ms - dirty[0].first_append_ms > config.max_compaction_lag_ms
    )
    has_old_tombstones = 0 <= delete_horizon_ms <= now_ms
    if not is_dirty and not is_overdue and not has_old_tombstones:
        return None
    return CompactionPlan(
        directory=ready[0].directory,
        segments=tuple(
            SourceSegment(base_offset=s.base_offset, next_offset=s.next_offset, size=s.size) for s in ready
        ),
        first_dirty_offset=max(cleaned_to, ready[0].base_offset),
        upto_offset=upto,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_interval=config.index_interval_bytes,
        producer_offsets=tuple(batch.base_offset for producer in producers for batch in producer.batches),
    )


def _settled_end(segments: Sequence[Segment], lag_ms: int, *, high_watermark: int, now_ms: int) -> int:
    """Where compaction has to stop: at records that are too young, or not yet safe."""
    end = min(high_watermark, segments[-1].next_offset) if segments else 0
    if lag_ms > 0:
        for segment in segments:
            if now_ms - newest_ms(segment) < lag_ms:
                return min(end, segment.base_offset)
    return end


def sources_of(
    compacted: CompactedSegment, segments: Sequence[Segment], plan: CompactionPlan
) -> list[Segment] | None:
    """The segments that the new one replaces; None if they are no longer what was planned."""
    planned = {source.base_offset: source.size for source in plan.segments}
    by_base = {segment.base_offset: segment for segment in segments if not segment.is_archived}
    sources = [by_base.get(base) for base in compacted.sources]
    if any(s is None or s.size != planned.get(s.base_offset) for s in sources):
        return None
    return [segment for segment in sources if segment is not None]


def swap_in(compacted: CompactedSegment, sources: Sequence[Segment]) -> tuple[Segment, list[str]]:
    """Give the cleaned file its place on disk; returns its segment, and the files that can be unlinked."""
    first = sources[0]
    directory = first.directory
    log_path, index_path, time_index_path = cleaned_paths(directory, first.base_offset)
    os.rename(log_path, os.path.join(directory, swap_name(first.base_offset, compacted.next_offset)))
    sync_directory(directory)
    doomed = complete_swap(
        directory, first.base_offset, compacted.next_offset, [source.base_offset for source in sources]
    )
    segment = Segment(directory, first.base_offset)
    for path, suffix in ((index_path, INDEX_SUFFIX), (time_index_path, TIME_INDEX_SUFFIX)):
        with suppress(FileNotFoundError):
            os.rename(path, segment.path(suffix))
    segment.modified_ns = os.stat(segment.file.path).st_mtime_ns
    segment.size = segment.unchecked_end = compacted.size
    segment.next_offset = segment.unchecked_offset = compacted.next_offset
    segment.max_timestamp = compacted.max_timestamp
    segment.max_timestamp_offset = compacted.max_timestamp_offset
    segment.first_append_ms = first.first_append_ms
    segment.is_compacted = True
    lost = [d for source in sources for d in source.damaged if d.position == d.end]
    segment.damaged = sorted(
        [
            *(Damage(*damage) for damage in compacted.damaged),
            *(Damage(segment.size, segment.size, d.first_offset, d.next_offset) for d in lost),
        ]
    )
    return segment, doomed


def discard(compacted: CompactedSegment, directory: str) -> None:
    for path in cleaned_paths(directory, compacted.base_offset):
        with suppress(FileNotFoundError):
            os.unlink(path)
