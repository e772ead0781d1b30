"""Record batches as Kafka clients write them: headers, records, compression, varints, checksums.

Why: every room that handles records needs the same few functions over bytes, and none of the others' concerns.
Invariants: pure functions over buffers; no file, socket or clock. Whatever the bytes, decoding gives a value,
CorruptBatch or InvalidRecord. batch.py has the layout; start there.
"""
