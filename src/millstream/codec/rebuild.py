"""A batch in another compression than its producer chose.

Why: a topic's `compression.type` may ask for it. The records' own bytes don't depend on the compression,
so they are moved as one block and never looked at.
Invariants: all of the header but compression, length, CRC and (when asked) the append time stays as it is.
"""

from millstream.codec.batch import COMPRESSION_MASK, LOG_APPEND_TIME, BatchHeader, Buffer
from millstream.codec.compression import DECOMPRESSED_SIZE_MAX, Compression, compress
from millstream.codec.records import read_payload, wrap_payload


def rebuild(
    batch: Buffer,
    header: BatchHeader,
    *,
    compression: Compression,
    level: int | None = None,
    append_time_ms: int | None = None,
    size_max: int = DECOMPRESSED_SIZE_MAX,
) -> bytearray:
    """The batch with its payload in `compression`, and `append_time_ms` as its records' time if given.

    Raises CorruptBatch if the payload can't be decompressed, or not within `size_max` bytes.
    """
    payload = read_payload(batch, header, size_max=size_max)
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    max_timestamp = header.max_timestamp
    if append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = append_time_ms
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    return wrap_payload(changed, compress(compression, payload, level))
