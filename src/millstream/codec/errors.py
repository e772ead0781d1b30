"""What can be wrong with a record batch.

Why: bytes that are damaged and a request that breaks the rules need different answers, and the one who
decodes can't know which door they came through.
Invariants: `CorruptBatch` means the bytes can't be trusted; `InvalidRecord` means they are intact but not
allowed. Decoding raises nothing else, whatever the bytes.
"""

from millstream.model.errors import BadRequest, CorruptData


class CorruptBatch(CorruptData):
    """A batch whose bytes don't hold what its header, its checksum or its compression promises."""

    def __init__(self, reason: str, *, base_offset: int | None = None) -> None:
        where = "record batch" if base_offset is None else f"record batch at offset {base_offset}"
        super().__init__(f"{where}: {reason}")
        self.reason = reason
        self.base_offset = base_offset


class DecompressedTooLarge(CorruptBatch):
    """A payload that grows beyond the bound when decompressed. Nothing beyond the bound was produced."""

    def __init__(self, kind: str, *, size_max: int) -> None:
        super().__init__(f"{kind} payload decompresses to more than {size_max} bytes; send smaller batches")
        self.kind = kind
        self.size_max = size_max


class InvalidRecord(BadRequest):
    """An intact batch with a record that can't be taken."""

    def __init__(self, reason: str, *, index: int | None = None) -> None:
        where = "record batch" if index is None else f"record {index} of the batch"
        super().__init__(f"{where}: {reason}")
        self.reason = reason
        self.index = index
        """The record's place in its batch, counted from 0; None when the whole batch is meant."""
