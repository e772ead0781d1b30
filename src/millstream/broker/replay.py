"""Reading an internal log back, record by record, when a node starts.

Invariants: records come in offset order, each once; a corrupt stretch is stepped over, the rest is kept.
"""

from collections.abc import Iterator

from millstream.codec.batch import iter_headers
from millstream.codec.records import Record, decode_records
from millstream.log.errors import CorruptRange
from millstream.log.partition import PartitionLog

READ_BYTES = 1 << 20


def stored_records(log: PartitionLog, damaged: list[CorruptRange] | None = None) -> Iterator[Record]:
    """Every record from the log's start to its end. Control batches are left out; `damaged` gets what is lost."""
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            found = log.read(offset, READ_BYTES, limit=log.end_offset)
        except CorruptRange as error:
            if damaged is not None:
                damaged.append(error)
            offset = error.next_offset
            continue
        if not found.size:
            return
        for buffer in found.buffers:
            view = memoryview(buffer)
            for position, header in iter_headers(view, 0, len(view)):
                if not header.is_control:
                    yield from decode_records(view[position : position + header.size])
                offset = header.next_offset
