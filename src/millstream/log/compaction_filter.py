"""What compaction leaves of one batch.

Why: all rules about keeping records live here, away from files.
Invariants: a batch keeps its base offset, last offset, producer, sequence and compression; its records keep
their bytes, unless the batch gets its delete horizon now: that takes the place of the base timestamp, and
every record's timestamp is counted from it.
"""

from millstream.codec.batch import COMPRESSION_MASK, DELETE_HORIZON, HEADER_SIZE, BatchHeader
from millstream.codec.compression import Compression, compress
from millstream.codec.records import wrap_payload
from millstream.codec.scan import RecordSpan, shift_timestamps
from millstream.log.compaction_walk import LatestOffsets, key_digest, marker_kind, spans_in

HORIZON_MAX_MS = 2**62
"""A horizon for ever, from which every timestamp can still be counted in 64 bits."""


class BatchFilter:
    """Takes a log's batches in order."""

    def __init__(
        self,
        latest: LatestOffsets,
        *,
        now_ms: int,
        delete_retention_ms: int,
        producer_offsets: frozenset[int],
    ) -> None:
        self._latest = latest
        self._now_ms = now_ms
        self._new_horizon_ms = min(now_ms + delete_retention_ms, HORIZON_MAX_MS)
        self._producer_offsets = producer_offsets
        self._open_producers: set[int] = set()
        """Producers with transactional records since their last marker."""
        self.records_read = 0
        self.records_kept = 0
        self.next_delete_horizon_ms: int | None = None

    def apply(
        self, batch: memoryview, header: BatchHeader, *, must_stay: bool
    ) -> BatchHeader | bytearray | None:
        """`header` itself to copy the batch as it is, a batch to write instead, or None for neither.

        `must_stay` keeps the batch, without records if none is left.
        """
        if header.next_offset > self._latest.reached:
            return header
        self.records_read += header.record_count
        must_stay = must_stay or header.base_offset in self._producer_offsets
        if header.is_control:
            return self._apply_to_control(batch, header, must_stay)
        if header.is_transactional:
            self._open_producers.add(header.producer_id)
        if header.base_offset in self._latest.aborted:
            return self._emptied(header, must_stay)
        found = spans_in(batch, header)
        if found is None:
            self.records_kept += header.record_count
            return header
        payload, spans = found
        kept, has_tombstones = self._kept_spans(spans, header)
        if not kept:
            return self._emptied(header, must_stay)
        self.records_kept += len(kept)
        if has_tombstones:
            if header.delete_horizon_ms is None:
                return self._rebuilt(header, payload, kept, self._new_horizon_ms)
            self._note_horizon(header.delete_horizon_ms)
        if len(kept) == len(spans):
            return header
        return self._rebuilt(header, payload, kept, header.delete_horizon_ms)

    def _kept_spans(self, spans: list[RecordSpan], header: BatchHeader) -> tuple[list[RecordSpan], bool]:
        horizon_ms = header.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and horizon_ms <= self._now_ms
        base_offset = header.base_offset
        latest = self._latest.offsets
        kept: list[RecordSpan] = []
        has_tombstones = False
        for span in spans:
            key = span[4]
            if key is not None:
                if latest.get(key_digest(key), -1) > base_offset + span[3]:
                    continue
                if span[6] < 0:
                    if drops_tombstones:
                        continue
                    has_tombstones = True
            kept.append(span)
        return kept, has_tombstones

    def _apply_to_control(
        self, batch: memoryview, header: BatchHeader, must_stay: bool
    ) -> BatchHeader | bytearray | None:
        if header.record_count == 0:
            return self._emptied(header, must_stay)
        ends_nothing = header.producer_id not in self._open_producers
        self._open_producers.discard(header.producer_id)
        horizon_ms = header.delete_horizon_ms
        if not ends_nothing or marker_kind(batch, header) is None:
            self.records_kept += header.record_count
            return header
        if horizon_ms is not None and horizon_ms <= self._now_ms:
            return self._emptied(header, must_stay)
        self.records_kept += header.record_count
        if horizon_ms is not None:
            self._note_horizon(horizon_ms)
            return header
        found = spans_in(batch, header)
        assert found is not None  # its kind was read
        return self._rebuilt(header, found[0], found[1], self._new_horizon_ms)

    def _emptied(self, header: BatchHeader, must_stay: bool) -> BatchHeader | bytearray | None:
        if not must_stay:
            return None
        if header.record_count == 0 and header.size == HEADER_SIZE:
            return header
        return wrap_payload(
            header._replace(
                attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON),
                base_timestamp=header.max_timestamp,
                record_count=0,
            ),
            b"",
        )

    def _rebuilt(
        self, header: BatchHeader, payload: bytes, kept: list[RecordSpan], horizon_ms: int | None
    ) -> bytearray:
        attributes, base_timestamp, max_timestamp = (
            header.attributes,
            header.base_timestamp,
            header.max_timestamp,
        )
        if not header.is_log_append_time:
            max_timestamp = base_timestamp + max(span[2] for span in kept)
        if horizon_ms is None or horizon_ms == header.delete_horizon_ms:
            records = b"".join([payload[span[0] : span[1]] for span in kept])
        else:
            records = shift_timestamps(payload, kept, base_timestamp - horizon_ms)
            attributes |= DELETE_HORIZON
            base_timestamp = horizon_ms
            self._note_horizon(horizon_ms)
        changed = header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        )
        return wrap_payload(changed, compress(Compression(header.compression), records))

    def _note_horizon(self, horizon_ms: int) -> None:
        if self.next_delete_horizon_ms is None or horizon_ms < self.next_delete_horizon_ms:
            self.next_delete_horizon_ms = horizon_ms
