"""Expired segments kept elsewhere, as they are, and still part of the log.

Why: disks for the past are cheaper than disks for the present, and a segment that is moved, not converted, stays
readable by offset through the same fetch.
Invariants: a segment is at every moment whole in at least one place: moved by one rename, or, to another
device, copied and synced under another name before it takes its own, and only then dropped here. If both are
found at a start, the local one counts and the copy is made again. Archived segments are the leading ones.
"""

import errno
import os
import shutil
from dataclasses import dataclass

from millstream.log.files import sync_directory
from millstream.log.inventory import COPYING_SUFFIX
from millstream.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, segment_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCopy:
    """A segment that has to be copied to another device. Call `run` in a thread of its own."""

    base_offset: int
    source: str
    target: str

    def run(self) -> None:
        """Copy and sync; the segment here stays. Raises OSError, and then leaves nothing behind."""
        name = segment_name(self.base_offset)
        os.makedirs(self.target, exist_ok=True)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            _copy(os.path.join(self.source, name + suffix), os.path.join(self.target, name + suffix))
        sync_directory(self.target)
        sync_directory(os.path.dirname(self.target))


def move_segment(segment: Segment, archive_directory: str) -> ArchiveCopy | None:
    """Rename the segment's files into the archive; a copy to be made, if that is another device."""
    os.makedirs(archive_directory, exist_ok=True)
    old = [segment.path(suffix) for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    source = segment.directory
    try:
        os.rename(old[0], os.path.join(archive_directory, os.path.basename(old[0])))
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return ArchiveCopy(base_offset=segment.base_offset, source=source, target=archive_directory)
    for path in old[1:]:
        try:
            os.rename(path, os.path.join(archive_directory, os.path.basename(path)))
        except FileNotFoundError:
            continue  # it is rebuilt when it is needed
    settle_in_archive(segment, archive_directory)
    return None


def settle_in_archive(segment: Segment, archive_directory: str) -> None:
    """From now on the segment's files are in the archive."""
    segment.directory = archive_directory
    segment.is_archived = True
    segment.file.path = segment.path(LOG_SUFFIX)


def _copy(source: str, target: str) -> None:
    temporary = target + COPYING_SUFFIX
    try:
        with open(source, "rb") as reader, open(temporary, "wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)
            writer.flush()
            os.fsync(writer.fileno())
        shutil.copystat(source, temporary)
    except FileNotFoundError:
        if source.endswith(LOG_SUFFIX):
            raise
        return
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    os.rename(temporary, target)
