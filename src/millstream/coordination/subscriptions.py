"""The topics inside a consumer's subscription.

Why: offsets of a topic must not expire or be deleted while somebody reads it, and only the members' own
metadata says who reads what.
Invariants: the bytes come from clients: anything malformed is None, nothing is allocated by a count that the
bytes do not back. Only the first version's fields are read; later versions append to them.

Format: int16 version, int32 count, then each topic as int16 length and UTF-8.
"""

import struct

CONSUMER_PROTOCOL = "consumer"

_HEADER = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics, or None if these bytes are no subscription."""
    try:
        version, count = _HEADER.unpack_from(metadata)
        if version < 0 or count < 0:
            return None
        position = _HEADER.size
        topics = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            start = position + _LENGTH.size
            position = start + length
            if length < 0 or position > len(metadata):
                return None
            topics.add(metadata[start:position].decode())
        return frozenset(topics)
    except (struct.error, UnicodeDecodeError):
        return None
