"""Which segments have had their time: by age, by size, and by the log's start.

Why: a log may not grow for ever, and what goes must go from its beginning, whole segments at a time.
Rules, Kafka's: a segment's age is that of its newest record (of its file, if no record has a time), so records
dated long ago go at once, and one dated in the future keeps its segment. By size, the oldest go as long as what
stays is still as large as the limit. Nothing at or behind the high watermark ever goes.
Invariants: what is returned is always a prefix; nothing here touches a file but to ask its age.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from millstream.log.segment import Segment

UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    age_ms_max: int
    size_bytes_max: int


def expired_segments(
    segments: Sequence[Segment], policy: RetentionPolicy, *, now_ms: int, high_watermark: int
) -> list[Segment]:
    """The leading segments that the policy lets go; the last of all may be among them."""
    over_bytes = 0
    if policy.size_bytes_max != UNLIMITED:
        over_bytes = sum(segment.size for segment in segments) - policy.size_bytes_max
    expired: list[Segment] = []
    for segment in segments:
        if not segment.size and segment is segments[-1]:
            break  # the segment that the next append goes to
        if segment.next_offset > high_watermark:
            break
        is_too_much = over_bytes - segment.size >= 0 and policy.size_bytes_max != UNLIMITED
        if not is_too_much and not is_too_old(segment, policy.age_ms_max, now_ms=now_ms):
            break
        over_bytes -= segment.size
        expired.append(segment)
    return expired


def is_too_old(segment: Segment, age_ms_max: int, *, now_ms: int) -> bool:
    return age_ms_max != UNLIMITED and now_ms - newest_ms(segment) > age_ms_max


def newest_ms(segment: Segment) -> int:
    """The time of the segment's newest record; the file's, if no record has one."""
    if segment.max_timestamp >= 0:
        return segment.max_timestamp
    try:
        return int(os.stat(segment.file.path).st_mtime * 1000)
    except OSError:
        return 2**62  # can't be told: it stays


def segments_below(segments: Sequence[Segment], start_offset: int) -> list[Segment]:
    """The leading segments with nothing at or behind `start_offset`; never the last."""
    below: list[Segment] = []
    for segment, following in pairwise(segments):
        if following.base_offset > start_offset:
            break
        below.append(segment)
    return below
