"""What lies in a partition's directory, sorted by what it means.

Why: a crash may leave files of every stage behind; each has one meaning, and what we don't know we don't touch.

    BASE.log                  a segment                       kept
    BASE.index .timeindex     its indexes                     removed if their segment is gone
    BASE.log.cleaned          compaction that never finished  removed
    BASE-END.swap             compaction that has finished    completed: replaces all segments in [BASE, END)
    *.deleted                 dropped, waiting for unlink     reported
    *.tmp, *.copying          a write that never finished     removed

Invariants: no segment is ever removed here but those that a finished compaction replaces, and these are only
renamed.
"""

import os
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.log.files import TEMPORARY_SUFFIX, sync_directory
from millstream.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"
COPYING_SUFFIX = ".copying"

_SEGMENT = re.compile(r"(\d{20})\.log")
_INDEX = re.compile(r"(\d{20})\.(?:index|timeindex)")
_SWAP = re.compile(r"(\d{20})-(\d{20})\.swap")
_TEMPORARY = re.compile(r"(?:checkpoint\.json|producers\.snapshot|\d{20}\.(?:index|timeindex))\.tmp")
_CLEANED = re.compile(r"\d{20}.*\.cleaned")
_COPYING = re.compile(r"\d{20}\.(?:log|index|timeindex)\.copying")


class FileStamp(NamedTuple):
    """By what a file is known again. A compacted segment can be as large as the one it replaces, never as old."""

    size: int
    modified_ns: int


@dataclass(slots=True)
class Inventory:
    segments: dict[int, FileStamp] = field(default_factory=dict)
    """Each segment's file by its base offset."""
    deleted: list[str] = field(default_factory=list)
    swaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def deleted_bases(self) -> set[int]:
        names = (os.path.basename(path) for path in self.deleted)
        return {int(name[:20]) for name in names if _SEGMENT.fullmatch(name.removesuffix(DELETED_SUFFIX))}


def take_inventory(directory: str) -> Inventory | None:
    """What is there, after removing what never finished and completing what did; None without a directory."""
    found = Inventory()
    unfinished: list[str] = []
    index_names: list[tuple[int, str]] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                _sort(entry, found, unfinished, index_names)
    except FileNotFoundError:
        return None
    for path in unfinished:
        os.unlink(path)
    if found.swaps:
        for base, end in sorted(found.swaps):
            complete_swap(directory, base, end, sorted(found.segments))
        return take_inventory(directory)
    for base, path in index_names:
        if base not in found.segments:
            os.unlink(path)
    return found


def _sort(
    entry: "os.DirEntry[str]",
    found: Inventory,
    unfinished: list[str],
    index_names: list[tuple[int, str]],
) -> None:
    name = entry.name
    if match := _SEGMENT.fullmatch(name):
        found.segments[int(match[1])] = stamp_of(entry.stat())
    elif match := _INDEX.fullmatch(name):
        index_names.append((int(match[1]), entry.path))
    elif name.endswith(DELETED_SUFFIX):
        found.deleted.append(entry.path)
    elif match := _SWAP.fullmatch(name):
        found.swaps.append((int(match[1]), int(match[2])))
    elif (
        (name.endswith(TEMPORARY_SUFFIX) and _TEMPORARY.fullmatch(name))
        or (name.endswith(CLEANED_SUFFIX) and _CLEANED.fullmatch(name))
        or (name.endswith(COPYING_SUFFIX) and _COPYING.fullmatch(name))
    ):
        unfinished.append(entry.path)


def stamp_of(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_size, status.st_mtime_ns)


def swap_name(base_offset: int, end_offset: int) -> str:
    return f"{segment_name(base_offset)}-{segment_name(end_offset)}{SWAP_SUFFIX}"


def complete_swap(directory: str, base_offset: int, end_offset: int, bases: list[int]) -> list[str]:
    """Let the swap file take the place of all segments in [base_offset, end_offset).

    May be called again after a crash at any point. Returns the files that can be unlinked.
    """
    deleted: list[str] = []
    for base in bases:
        if base_offset <= base < end_offset:
            deleted += set_aside(directory, base)
    # The old ones must not come back beside the new one, which would then overlap them.
    sync_directory(directory)
    swap = os.path.join(directory, swap_name(base_offset, end_offset))
    os.rename(swap, os.path.join(directory, segment_name(base_offset) + LOG_SUFFIX))
    return deleted


def set_aside(directory: str, base_offset: int) -> list[str]:
    """Rename a segment's files so that no start takes them for part of the log; returns their new paths."""
    renamed: list[str] = []
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = os.path.join(directory, segment_name(base_offset) + suffix)
        try:
            os.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            continue
        renamed.append(path + DELETED_SUFFIX)
    return renamed
