"""The log cleaner's work: sealed segments rewritten so that each key keeps its last record only.

Why: a compacted topic is a table kept as a log; without this it grows with every change instead of with the
number of keys. Runs in a process of its own (compactor.py): it takes seconds of CPU that the event loop
doesn't have.
What is kept: the last record of each key, at its own offset, in its own batch; a tombstone until
`delete_retention_ms` after it was first compacted (the batch then carries that moment, its delete horizon);
records without a key; all from `upto_offset` on, and from the first record on whose transaction is undecided.
Records of aborted transactions go; a transaction's marker goes, like a tombstone, once its records are gone.
Invariants: offsets never change; a batch that loses nothing is copied byte for byte, damaged bytes too; the
last batch of each new file stays, if need be without records, so that a file's offset range is that of the
segments it replaces; a batch that producers' states rest on stays too. The segments themselves are only
read: new files are `BASE.log.cleaned` with indexes beside them, synced before the result is given.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from millstream.codec.batch import BatchHeader
from millstream.log.compaction_filter import BatchFilter
from millstream.log.compaction_output import CleanedFile, CompactedSegment, cleaned_paths
from millstream.log.compaction_walk import SourceSegment, latest_offsets, open_source, walk
from millstream.log.errors import LogIOError
from millstream.log.files import sync_directory
from millstream.log.segment import RELATIVE_OFFSET_MAX

KEYS_MAX = 1_000_000
"""Keys remembered in one run: about 150 bytes of memory each. A log with more is compacted in several runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """What to compact. `segments` are all sealed ones, from the log's first on, oldest first."""

    directory: str
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: int
    """Everything below was compacted before (`CompactionResult.cleaned_to`), so no key occurs twice there."""
    upto_offset: int
    """Nothing at or past it is touched: `min.compaction.lag.ms` and the last stable offset are in it."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    """Neighbours are merged as long as they don't pass it."""
    index_interval: int
    producer_offsets: tuple[int, ...] = ()
    """Base offsets of the batches by which producers' retries are recognised."""
    keys_max: int = KEYS_MAX

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "CompactionPlan":
        fields = json.loads(text)
        fields["segments"] = tuple(SourceSegment(**segment) for segment in fields["segments"])
        fields["producer_offsets"] = tuple(fields["producer_offsets"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    segments: tuple[CompactedSegment, ...]
    """The new files; segments that no file names as a source stay as they are."""
    cleaned_to: int
    """The next run's `first_dirty_offset`."""
    records_read: int
    records_kept: int
    bytes_before: int
    bytes_after: int
    next_delete_horizon_ms: int | None
    """When the first of the tombstones that were kept may go; None without any."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "CompactionResult":
        fields = json.loads(text)
        fields["segments"] = tuple(CompactedSegment.from_fields(segment) for segment in fields["segments"])
        return cls(**fields)


def compact(plan: CompactionPlan) -> CompactionResult:
    """Write the new files and say which segments they replace. Raises LogIOError, and then leaves no file."""
    try:
        return _compact(plan)
    except BaseException as error:
        for segment in plan.segments:
            for path in cleaned_paths(plan.directory, segment.base_offset):
                with suppress(OSError):
                    os.unlink(path)
        if isinstance(error, OSError):
            raise LogIOError(error.filename or plan.directory, error) from error
        raise


def _compact(plan: CompactionPlan) -> CompactionResult:
    latest = latest_offsets(
        plan.directory,
        plan.segments,
        first_offset=plan.first_dirty_offset,
        upto_offset=plan.upto_offset,
        keys_max=plan.keys_max,
    )
    batches = BatchFilter(
        latest,
        now_ms=plan.now_ms,
        delete_retention_ms=plan.delete_retention_ms,
        producer_offsets=frozenset(plan.producer_offsets),
    )
    rewritten = [_rewrite(plan, group, batches) for group in _groups(plan, latest.reached)]
    cleaned = tuple(segment for segment in rewritten if segment is not None)
    if cleaned:
        sync_directory(plan.directory)
    replaced = {base_offset for segment in cleaned for base_offset in segment.sources}
    bytes_untouched = sum(segment.size for segment in plan.segments if segment.base_offset not in replaced)
    return CompactionResult(
        segments=cleaned,
        cleaned_to=max(plan.first_dirty_offset, latest.reached),
        records_read=batches.records_read,
        records_kept=batches.records_kept,
        bytes_before=sum(segment.size for segment in plan.segments),
        bytes_after=bytes_untouched + sum(segment.size for segment in cleaned),
        next_delete_horizon_ms=batches.next_delete_horizon_ms,
    )


def _groups(plan: CompactionPlan, reached: int) -> Iterator[list[SourceSegment]]:
    """Neighbours that fit into one segment together; only those that hold something to compact."""
    group: list[SourceSegment] = []
    size = 0
    for segment in plan.segments:
        if segment.base_offset >= reached:
            break
        fits = group and (
            size + segment.size <= plan.segment_bytes
            and segment.next_offset - group[0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if group and not fits:
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _rewrite(
    plan: CompactionPlan, group: list[SourceSegment], batches: BatchFilter
) -> CompactedSegment | None:
    """One new file for the group; None, and no file, if a lone segment would come out as it is."""
    output = CleanedFile(plan.directory, group, index_interval=plan.index_interval)
    try:
        for segment in group:
            with open_source(plan.directory, segment) as source:
                output.begin(source)
                for step in walk(source):
                    if step.header is None:
                        output.copy_damage(step)
                        continue
                    is_last = segment is group[-1] and step.end == segment.size
                    kept = batches.apply(step.batch(), step.header, must_stay=is_last)
                    if isinstance(kept, BatchHeader):
                        output.copy(step)
                    else:
                        output.write(kept, step.position)
        return output.finish()
    finally:
        output.close()
