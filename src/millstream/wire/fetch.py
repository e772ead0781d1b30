"""Fetch answers, written by hand around slices of the log.

Why: records go from the page cache to the socket without a copy in Python; only the few header bytes between
them are made here. (The request is small and goes through the general codec.)
Invariants: the buffers, joined, are one whole frame; `records` buffers are passed on as they are.
"""

from collections.abc import Sequence
from struct import Struct as Packer
from typing import NamedTuple

Buffer = bytes | bytearray | memoryview

VERSION_FLEXIBLE = 12
VERSION_TOPIC_IDS = 13

_FRAME = Packer(">ii")
_INT16 = Packer(">h")
_INT32 = Packer(">i")
_TOP_OLD = Packer(">i")
_TOP = Packer(">ihi")  # throttle, error, session
_PARTITION_4 = Packer(">ihqq")  # index, error, high watermark, last stable offset
_PARTITION_5 = Packer(">ihqqq")  # and the log's start offset
_ABORTED = Packer(">qq")


class FetchedPartition(NamedTuple):
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions in range; None when not asked for."""
    records: Sequence[Buffer] = ()
    size: int = 0
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the reader's history left the log's."""


def write_fetch_response(
    version: int,
    correlation_id: int,
    *,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]],
) -> list[Buffer]:
    """The whole frame as buffers to be written one after the other."""
    out = bytearray(8)
    buffers: list[Buffer] = [out]
    if version >= VERSION_FLEXIBLE:
        out, records_size = _write_flexible(buffers, version, error_code, session_id, topics)
    else:
        out, records_size = _write_legacy(buffers, version, error_code, session_id, topics)
    if out is not buffers[0] and out:
        buffers.append(out)
    head = buffers[0]
    total = records_size + sum(len(made) for made in _made(buffers))
    _FRAME.pack_into(head, 0, total - 4, correlation_id)
    return buffers


def _made(buffers: list[Buffer]) -> list[bytearray]:
    """The buffers written here; records come as bytes or memoryviews."""
    return [buffer for buffer in buffers if type(buffer) is bytearray]


def _write_legacy(
    buffers: list[Buffer],
    version: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]],
) -> tuple[bytearray, int]:
    out: bytearray = buffers[0]  # type: ignore[assignment]  # made by the caller as a bytearray
    out += _TOP.pack(0, error_code, session_id) if version >= 7 else _TOP_OLD.pack(0)
    out += _INT32.pack(len(topics))
    records_size = 0
    for topic, partitions in topics:
        name = topic.encode() if isinstance(topic, str) else topic
        out += _INT16.pack(len(name))
        out += name
        out += _INT32.pack(len(partitions))
        for partition in partitions:
            if version >= 5:
                out += _PARTITION_5.pack(*partition[:5])
            else:
                out += _PARTITION_4.pack(*partition[:4])
            aborted = partition.aborted
            if aborted is None:
                out += b"\xff\xff\xff\xff"
            else:
                out += _INT32.pack(len(aborted))
                for transaction in aborted:
                    out += _ABORTED.pack(*transaction)
            if version >= 11:
                out += b"\xff\xff\xff\xff"  # no preferred read replica
            out += _INT32.pack(partition.size)
            if partition.size:
                records_size += partition.size
                out = _cut(buffers, out, partition.records)
    return out, records_size


def _write_flexible(
    buffers: list[Buffer],
    version: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]],
) -> tuple[bytearray, int]:
    out: bytearray = buffers[0]  # type: ignore[assignment]  # made by the caller as a bytearray
    out += b"\x00"  # header tags
    out += _TOP.pack(0, error_code, session_id)
    _put_uvarint(out, len(topics) + 1)
    records_size = 0
    for topic, partitions in topics:
        if isinstance(topic, str):
            name = topic.encode()
            _put_uvarint(out, len(name) + 1)
            out += name
        else:
            out += topic
        _put_uvarint(out, len(partitions) + 1)
        for partition in partitions:
            out += _PARTITION_5.pack(*partition[:5])
            aborted = partition.aborted
            if aborted is None:
                out += b"\x00"
            else:
                _put_uvarint(out, len(aborted) + 1)
                for transaction in aborted:
                    out += _ABORTED.pack(*transaction)
                    out += b"\x00"
            out += b"\xff\xff\xff\xff"  # no preferred read replica
            _put_uvarint(out, partition.size + 1)
            if partition.size:
                records_size += partition.size
                out = _cut(buffers, out, partition.records)
            if partition.diverging is None:
                out += b"\x00"
            else:  # tag 0: epoch, end offset, no tags of its own
                out += b"\x01\x00\x0d" + Packer(">iq").pack(*partition.diverging) + b"\x00"
        out += b"\x00"
    out += b"\x00"
    return out, records_size


def _cut(buffers: list[Buffer], out: bytearray, records: Sequence[Buffer]) -> bytearray:
    """Close the header bytes written so far, put the records behind them, begin new header bytes."""
    if out is not buffers[0]:
        buffers.append(out)
    buffers.extend(records)
    return bytearray()


def _put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
