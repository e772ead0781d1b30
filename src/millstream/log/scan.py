"""Walking a segment that can't be trusted: every batch checked, and found again behind damage.

Why: after a crash, and on the first read after a clean stop, nothing on disk is what it was until its
checksum says so. A damaged batch must not take the intact ones behind it along.
Invariants: what is yielded as a batch has a valid CRC, the next expected offset (or a rising one, where
compaction may have left gaps) and a plausible epoch, for these two are not under the CRC; every byte of the
range is part of exactly one batch or one damage; memory is bounded by the chunk, whatever a length field says.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from crc32c import crc32c

from millstream.codec.batch import HEADER_SIZE, LENGTH_MIN, MAGIC, SIZE_OVERHEAD, BatchHeader, read_header
from millstream.codec.errors import CorruptBatch
from millstream.log.epochs import LeaderEpochs
from millstream.log.segment import Damage

CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 4096
_CRC_FROM = 21
_MAGIC_AT = 16
_HEADER = Struct(">qiibIhiqqqhii")
_unpack = _HEADER.unpack_from
_new = tuple.__new__
_EPOCH_AT = 12
_MAGIC_BYTE = bytes([MAGIC])
_START = Struct(">qi")
NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """What the batches of a range must agree with, beside their own CRC."""

    has_gaps: bool
    """Whether offsets may jump: only compaction makes them."""
    epoch_max: int
    offset_max: int = NO_LIMIT
    """No batch reaches beyond it: the next segment's base."""
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    """Epochs known from elsewhere; they bind the offsets below `epochs_until`."""
    epochs_until: int = 0


class ChunkReader:
    """Bytes of a file through one bounded buffer. Blocks the disk can't read come back as zeros."""

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self.end = end
        self._chunk = b""
        self._start = 0

    def at(self, position: int, size: int) -> tuple[bytes, int]:
        """(buffer, index) where at least `size` bytes from `position` on are found, or all up to the end."""
        index = position - self._start
        if index < 0 or index + size > len(self._chunk):
            wanted = min(max(size, CHUNK_BYTES), self.end - position)
            self._chunk = self._read(position, max(0, wanted))
            self._start = position
            index = 0
        return self._chunk, index

    def crc(self, position: int, end: int) -> int:
        value = 0
        while position < end:
            chunk, index = self.at(position, min(end - position, CHUNK_BYTES))
            part = memoryview(chunk)[index : index + end - position]
            if not part:
                return -1
            value = crc32c(part, value)
            position += len(part)
        return value

    def _read(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, size, position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        parts = []
        end = position + size
        while position < end:
            length = min(_BLOCK_BYTES - position % _BLOCK_BYTES, end - position)
            try:
                parts.append(os.pread(self._fd, length, position))
            except OSError:
                parts.append(bytes(length))
            position += length
        return b"".join(parts)


def checked_batches(
    reader: ChunkReader, start: int, offset: int, expect: Expectations
) -> Iterator[tuple[int, BatchHeader] | Damage]:
    """Each batch from `start` (which holds `offset`, if intact) to the reader's end, and each damage between.

    The last damage has next_offset -1 when nothing intact lies behind it.
    """
    position = start
    epoch = expect.epochs.epoch_of(offset)
    after_damage = False
    while position < reader.end:
        if not after_damage:
            for found in _orderly(reader, position, offset, epoch, expect):
                yield found
                position = found[0] + found[1].size
                offset = found[1].next_offset
            if position >= reader.end:
                return
        header = _intact(reader, position, offset, epoch, expect, may_jump=expect.has_gaps or after_damage)
        if header is not None:
            yield position, header
            position += header.size
            offset = header.next_offset
            epoch = header.leader_epoch
            after_damage = False
            continue
        next_place = _next_intact(reader, position + 1, offset + 1, epoch, expect)
        if next_place is None:
            yield Damage(position, reader.end, offset, -1)
            return
        next_position, next_offset = next_place
        yield Damage(position, next_position, offset, next_offset)
        position, offset, after_damage = next_position, next_offset, True


def _orderly(
    reader: ChunkReader, position: int, offset: int, epoch: int, expect: Expectations
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of one chunk for as long as each is what comes next: the short way for nearly all of them."""
    chunk, index = reader.at(position, HEADER_SIZE)
    base = position - index
    view = memoryview(chunk)
    end = len(chunk)
    offset_max = min(expect.offset_max, expect.epochs.next_start(offset))
    while end - index >= HEADER_SIZE:
        header = _new(BatchHeader, _unpack(chunk, index))
        stop = index + header[1] + SIZE_OVERHEAD
        if (
            header[0] != offset
            or header[2] != epoch
            or header[3] != MAGIC
            or header[1] < LENGTH_MIN
            or stop > end
            or header[6] < 0
            or offset + header[6] >= offset_max
            or crc32c(view[index + _CRC_FROM : stop]) != header[4]
        ):
            return
        yield base + index, header
        offset += header[6] + 1
        index = stop


def _intact(
    reader: ChunkReader, position: int, offset: int, epoch: int, expect: Expectations, *, may_jump: bool
) -> BatchHeader | None:
    header = _plausible(reader, position, offset, expect)
    if header is None:
        return None
    jumps = header.base_offset != offset
    if jumps and not may_jump:
        return None
    if not _epoch_fits(header, epoch, expect):
        return None
    if reader.crc(position + _CRC_FROM, position + header.size) != header.crc:
        return None
    if jumps and not _successors_agree(reader, position, header, jumps=True):
        return None
    if header.leader_epoch != epoch and not _successors_agree(reader, position, header, jumps=False):
        return None
    return header


def _plausible(reader: ChunkReader, position: int, offset: int, expect: Expectations) -> BatchHeader | None:
    if reader.end - position < HEADER_SIZE:
        return None
    chunk, index = reader.at(position, HEADER_SIZE)
    try:
        header = read_header(chunk, index)
    except CorruptBatch:
        return None
    if (
        header.magic != MAGIC
        or header.size > reader.end - position
        or header.base_offset < offset
        or header.last_offset_delta < 0
        or header.next_offset > expect.offset_max
        or not 0 <= header.leader_epoch <= expect.epoch_max
    ):
        return None
    return header


def _epoch_fits(header: BatchHeader, epoch: int, expect: Expectations) -> bool:
    known = expect.epochs.epoch_of(header.base_offset)
    if known >= 0 and header.base_offset < expect.epochs_until:
        return header.leader_epoch == known
    return header.leader_epoch >= epoch


def _successors_agree(reader: ChunkReader, position: int, header: BatchHeader, *, jumps: bool) -> bool:
    """A flipped offset or epoch passes the CRC, but not the batches behind it, which know better.

    One that disagrees may itself be the damaged one: the second behind it decides.
    """
    following = position + header.size
    verdict = True
    for _ in range(2):
        if reader.end - following < HEADER_SIZE:
            break
        chunk, index = reader.at(following, HEADER_SIZE)
        try:
            successor = read_header(chunk, index)
        except CorruptBatch:
            break
        if successor.magic != MAGIC:
            break
        if jumps:
            verdict = successor.base_offset >= header.next_offset
        else:
            verdict = successor.leader_epoch >= header.leader_epoch
        if verdict:
            break
        following += successor.size
    return verdict


def _next_intact(
    reader: ChunkReader, position: int, offset: int, epoch: int, expect: Expectations
) -> tuple[int, int] | None:
    """Position and offset of the nearest intact batch at or behind `position` with no lower `offset`."""
    while reader.end - position >= HEADER_SIZE:
        chunk, index = reader.at(position, HEADER_SIZE)
        base = position - index
        # The magic is the one byte of a header that never varies; zeros, the common kind of damage, have none.
        hit = chunk.find(_MAGIC_BYTE, index + _MAGIC_AT)
        while hit >= 0:
            candidate = hit - _MAGIC_AT
            if chunk[candidate + _EPOCH_AT] == 0 and _could_start(chunk, candidate, offset, expect):
                header = _intact(reader, base + candidate, offset, epoch, expect, may_jump=True)
                if header is not None:
                    return base + candidate, header.base_offset
            hit = chunk.find(_MAGIC_BYTE, hit + 1)
        position = (
            max(position, base + len(chunk) - _MAGIC_AT) if base + len(chunk) < reader.end else reader.end
        )
    return None


def _could_start(chunk: bytes, index: int, offset: int, expect: Expectations) -> bool:
    base_offset: int
    length: int
    base_offset, length = _START.unpack_from(chunk, index)
    return offset <= base_offset < expect.offset_max and length >= LENGTH_MIN
