"""One file of record batches, named after the offset it starts at, and what is known about it.

Why: a log grows at one end and is dropped at the other; segments make both cheap.
Invariants: `base_offset` <= every offset inside < `next_offset`; bytes [0, size) are whole batches, but for
ranges listed in `damaged`; bytes below `unchecked_end` that no range of `checked` covers were written before
this process started and must be checked before they are served. `hints` maps offsets to positions of
batches, and only ever holds true pairs.
Life cycle: grows while active, is sealed (its indexes saved), and is later dropped, archived or replaced by a
compacted one. Only the bytes on disk matter: all else here can be derived from them.
"""

from typing import NamedTuple

from millstream.log.files import SegmentFile
from millstream.log.index import OFFSET_KEY, TIME_KEY, SparseIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
NO_TIMESTAMP = -1

INDEX_ROW_BYTES = 8
HINTS_MAX = 64
CHECKED_MAX = 256
"""Ranges remembered as checked; with more, they are forgotten and checked again."""
RELATIVE_OFFSET_MAX = 2**31 - 1


class Damage(NamedTuple):
    """Bytes [position, end) that hold offsets [first_offset, next_offset) no more."""

    position: int
    end: int
    first_offset: int
    next_offset: int


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class Segment:
    __slots__ = (
        "base_offset",
        "checked",
        "damaged",
        "directory",
        "file",
        "first_append_ms",
        "hints",
        "is_archived",
        "is_compacted",
        "max_timestamp",
        "max_timestamp_offset",
        "modified_ns",
        "next_offset",
        "offsets",
        "size",
        "times",
        "unchecked_end",
        "unchecked_offset",
        "unindexed_bytes",
    )

    def __init__(self, directory: str, base_offset: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.file = SegmentFile(f"{directory}/{base_offset:020d}{LOG_SUFFIX}")
        self.size = 0
        self.next_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        """Base offset of the first batch that has it."""
        self.first_append_ms = -1
        self.modified_ns = 0
        """When the file was last written; 0 as long as it grows."""
        self.is_compacted = False
        self.is_archived = False
        self.offsets: SparseIndex | None = None
        """None while it is only on disk."""
        self.times: SparseIndex | None = None
        self.unindexed_bytes = 0
        self.hints: dict[int, int] = {}
        self.unchecked_end = 0
        self.unchecked_offset = base_offset
        """The offset that comes at `unchecked_end`."""
        self.checked: list[tuple[int, int, int]] = []
        """(start, end, offset at the end) of ranges below `unchecked_end` that were checked since."""
        self.damaged: list[Damage] = []

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    def start_indexes(self) -> None:
        """Empty indexes, for a segment that is new or about to be scanned from its start."""
        self.offsets = SparseIndex(OFFSET_KEY)
        self.times = SparseIndex(TIME_KEY)
        self.unindexed_bytes = 0

    def add(self, base_offset: int, next_offset: int, size: int, max_timestamp: int, interval: int) -> None:
        """Take account of a batch that was written behind all others."""
        position = self.size
        if self.unindexed_bytes > interval:
            self._index(base_offset, position)
        self.unindexed_bytes += size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = base_offset
        self.size = position + size
        self.next_offset = next_offset

    def _index(self, base_offset: int, position: int) -> None:
        assert self.offsets is not None
        assert self.times is not None
        self.offsets.add(base_offset - self.base_offset, position)
        if self.max_timestamp >= 0:
            self.times.add(self.max_timestamp, position)
        self.unindexed_bytes = 0

    def index_is_full(self, size_max: int) -> bool:
        assert self.offsets is not None
        return (len(self.offsets) + 1) * INDEX_ROW_BYTES > size_max

    def hint(self, offset: int, position: int) -> None:
        hints = self.hints
        if len(hints) >= HINTS_MAX:
            hints.clear()
        hints[offset] = position

    def save_indexes(self) -> None:
        if self.offsets is not None:
            self.offsets.save(self.path(INDEX_SUFFIX), covered=self.size)
        if self.times is not None:
            self.times.save(self.path(TIME_INDEX_SUFFIX), covered=self.size)

    def index_bytes(self) -> int:
        return sum(index.size_bytes for index in (self.offsets, self.times) if index is not None)

    def drop_indexes(self) -> None:
        self.offsets = None
        self.times = None

    def damage_at(self, position: int) -> Damage | None:
        for damage in self.damaged:
            if damage.position <= position < damage.end:
                return damage
        return None

    def next_damage(self, position: int) -> int:
        """Where the first damage at or behind `position` starts; the end of the segment without one."""
        return min((d.position for d in self.damaged if d.position >= position), default=self.size)

    def add_damage(self, damage: Damage) -> None:
        if damage not in self.damaged:
            self.damaged.append(damage)
            self.damaged.sort()
            self.hints.clear()

    def checked_from(self, position: int) -> tuple[int, int] | None:
        """(end, offset there) of the checked range that `position` lies in or directly behind."""
        for low, high, offset in self.checked:
            if low <= position <= high:
                return high, offset
        return None

    def mark_checked(self, start: int, end: int, offset_at_end: int) -> None:
        ranges = sorted([*self.checked, (start, end, offset_at_end)])
        merged = [ranges[0]]
        for low, high, offset in ranges[1:]:
            last_low, last_high, _ = merged[-1]
            if low > last_high:
                merged.append((low, high, offset))
            elif high > last_high:
                merged[-1] = (last_low, high, offset)
        self.checked = merged if len(merged) <= CHECKED_MAX else [(start, end, offset_at_end)]
        if len(merged) == 1 and merged[0][0] == 0 and merged[0][1] >= self.unchecked_end:
            self.unchecked_end = 0
            self.checked = []
