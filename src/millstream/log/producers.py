"""What each idempotent producer sent last, so that a batch sent twice is stored once.

Why: a producer that got no answer sends again; only the log knows whether the first try arrived.
Invariants: a producer's epoch never goes backwards; its last five batches are remembered (as many as a client
keeps in flight), across restarts too. All of it follows from the batches themselves: a snapshot only spares
reading them.
Transactions will keep their first offsets here, beside the sequences.
"""

from collections.abc import Iterator
from typing import NamedTuple

from millstream.codec.batch import SEQUENCE_MODULUS, BatchHeader
from millstream.log.checkpoint import ProducerEntry
from millstream.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from millstream.model.topics import TopicPartition

BATCHES_KEPT = 5


class Duplicate(NamedTuple):
    """A batch that is already in the log, at `base_offset`; it is durable once `end_offset` is."""

    base_offset: int
    end_offset: int


class SentBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    end_offset: int


class Producer:
    """One producer id. Public for DescribeProducers; changed by ProducerStates only."""

    __slots__ = ("batches", "epoch", "last_update_ms", "producer_id", "sequence_before")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_update_ms = -1
        self.batches: list[SentBatch] = []
        self.sequence_before = -1
        """The last sequence, when no batch is left that would tell."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else self.sequence_before


class ProducerStates:
    __slots__ = ("_partition", "_producers")

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(self, header: BatchHeader) -> Duplicate | None:
        """None for a batch to append, Duplicate for one that is in the log already.

        Raises InvalidProducerEpoch for a producer that was replaced, OutOfOrderSequence for a batch whose
        predecessor is missing. An unknown producer may start at any sequence, a new epoch only at 0.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None or header.base_sequence < 0:
            return None
        if header.producer_epoch != producer.epoch:
            if header.producer_epoch < producer.epoch:
                raise InvalidProducerEpoch(
                    self._partition,
                    producer_id=header.producer_id,
                    current=producer.epoch,
                    found=header.producer_epoch,
                )
            expected = 0
        else:
            expected = (producer.last_sequence + 1) % SEQUENCE_MODULUS
        if header.base_sequence == expected:
            return None
        if header.producer_epoch == producer.epoch:
            last_sequence = header.last_sequence
            for batch in producer.batches:
                if batch.first_sequence == header.base_sequence and batch.last_sequence == last_sequence:
                    return Duplicate(batch.base_offset, batch.end_offset)
        raise OutOfOrderSequence(
            self._partition,
            producer_id=header.producer_id,
            expected=expected,
            found=header.base_sequence,
        )

    def add(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remember a batch that was appended."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(
                header.producer_id, header.producer_epoch
            )
        elif header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
            producer.sequence_before = -1
        producer.last_update_ms = now_ms
        if header.base_sequence < 0:
            return  # a control batch: it ends a transaction and takes no sequence
        batches = producer.batches
        if len(batches) >= BATCHES_KEPT:
            del batches[0]
        batches.append(
            SentBatch(
                header.base_sequence,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta + 1,
            )
        )

    def expire(self, now_ms: int, idle_ms_max: int) -> None:
        """Forget producers that have been idle for longer than `idle_ms_max`."""
        expired = [p for p in self._producers.values() if now_ms - p.last_update_ms > idle_ms_max]
        for producer in expired:
            del self._producers[producer.producer_id]

    def entries(self) -> tuple[ProducerEntry, ...]:
        return tuple(
            ProducerEntry(p.producer_id, p.epoch, p.last_update_ms, tuple(p.batches), p.sequence_before)
            for p in self._producers.values()
        )

    def restore(self, entries: tuple[ProducerEntry, ...]) -> None:
        """Take over a snapshot."""
        for entry in entries:
            producer = self._producers[entry.producer_id] = Producer(entry.producer_id, entry.epoch)
            producer.last_update_ms = entry.last_update_ms
            producer.batches = [SentBatch(*batch) for batch in entry.batches]
            producer.sequence_before = entry.sequence_before

    def cut(self, end_offset: int) -> None:
        """The log was cut at `end_offset`: forget the batches behind it, but not what came before them."""
        for producer in self._producers.values():
            kept = [batch for batch in producer.batches if batch.end_offset <= end_offset]
            if producer.batches and not kept:
                producer.sequence_before = (producer.batches[0].first_sequence - 1) % SEQUENCE_MODULUS
            producer.batches = kept
