"""What a partition remembers beside its segments: `checkpoint.json` and `producers.snapshot`.

Why: a clean start must not scan, and a start after a crash should scan only what was not yet synced.
Invariants: each file carries a CRC32C of its content and is replaced as a whole; `recovery_point` never
passes what was synced before the file was written. Neither file is synced itself: after a power cut an older
one, or none, only means more scanning, because every claim is held against the segment files when it is read.
"""

from typing import TypeVar

import msgspec
from crc32c import crc32c

from millstream.log.files import replace_file

CHECKPOINT_NAME = "checkpoint.json"
SNAPSHOT_NAME = "producers.snapshot"
_PREFIX = b'{"crc32c":"%08x",'
_PREFIX_SIZE = len(_PREFIX % 0)


class DamageEntry(msgspec.Struct, frozen=True, array_like=True):
    position: int
    end: int
    first_offset: int
    next_offset: int


class SegmentEntry(msgspec.Struct, frozen=True):
    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    first_append_ms: int
    compacted: bool = False
    archived: bool = False
    modified_ns: int = 0
    """When the file was last written; 0 as long as it grows."""
    damaged: tuple[DamageEntry, ...] = ()


class Checkpoint(msgspec.Struct, frozen=True):
    start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    """Everything below was synced."""
    cleaned_to: int = 0
    """Everything below was compacted once."""
    delete_horizon_ms: int = -1
    """When compaction may drop the next tombstones; -1 without any."""
    has_producers: bool = False
    """Whether there was anything for the snapshot to hold."""
    epochs: tuple[tuple[int, int], ...] = ()
    segments: tuple[SegmentEntry, ...] = ()
    version: int = 1


class ProducerEntry(msgspec.Struct, frozen=True, array_like=True):
    producer_id: int
    epoch: int
    last_update_ms: int
    batches: tuple[tuple[int, int, int, int], ...]
    """(first sequence, last sequence, base offset, end offset), oldest first."""
    sequence_before: int = -1


class Snapshot(msgspec.Struct, frozen=True):
    end_offset: int
    """Batches below are accounted for."""
    recovery_point: int
    """Batches below were synced; those behind may have been lost since, and others written in their place."""
    producers: tuple[ProducerEntry, ...] = ()
    version: int = 1


_Kept = TypeVar("_Kept", Checkpoint, Snapshot)
_encoder = msgspec.json.Encoder()
_checkpoint_decoder = msgspec.json.Decoder(Checkpoint)
_snapshot_decoder = msgspec.json.Decoder(Snapshot)


def save_checkpoint(directory: str, checkpoint: Checkpoint) -> None:
    _save(f"{directory}/{CHECKPOINT_NAME}", _encoder.encode(checkpoint))


def load_checkpoint(directory: str) -> Checkpoint | None:
    """The checkpoint, or None when it is missing or not to be trusted."""
    return _load(f"{directory}/{CHECKPOINT_NAME}", _checkpoint_decoder)


def save_snapshot(directory: str, snapshot: Snapshot) -> None:
    _save(f"{directory}/{SNAPSHOT_NAME}", _encoder.encode(snapshot))


def load_snapshot(directory: str) -> Snapshot | None:
    """The producers' state, or None when it is missing or not to be trusted."""
    return _load(f"{directory}/{SNAPSHOT_NAME}", _snapshot_decoder)


def _save(path: str, encoded: bytes) -> None:
    body = encoded[1:]
    replace_file(path, _PREFIX % crc32c(body) + body, sync=False)


def _load(path: str, decoder: "msgspec.json.Decoder[_Kept]") -> _Kept | None:
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.read()
    except OSError:
        return None
    body = content[_PREFIX_SIZE:]
    if content[:_PREFIX_SIZE] != _PREFIX % crc32c(body):
        return None
    try:
        kept = decoder.decode(b"{" + body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return kept if kept.version == 1 else None
