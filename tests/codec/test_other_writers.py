"""Bytes that other clients wrote, read by us, and ours read by them.

`captures/` holds one batch each as kafka-clients 4.3.0 (Java) and librdkafka 2.15 sent it: five records at
`key-0` to `key-4`, written out in EXPECTED. The Python clients are asked here and now.
"""

from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from millstream.codec.batch import crc_is_valid, read_header
from millstream.codec.compression import Compression
from millstream.codec.records import Record, decode_records, encode_batch, validate_records

CAPTURES = sorted((Path(__file__).parent / "captures").glob("*.batch"))


def text(number: int) -> bytes:
    return (b"order %d shipped; " % number * 1200)[:20_000]


EXPECTED = [
    Record(0, 1_700_000_000_000, b"key-0", text(0)),
    Record(1, 1_700_000_001_000, b"key-1", text(1), (("trace", b"abc"), ("none", None))),
    Record(2, 1_700_000_002_000, b"key-2", text(2)),
    Record(3, 1_700_000_003_000, b"key-3", None),
    Record(4, 1_700_000_004_000, b"key-4", text(4)),
]


@pytest.mark.parametrize("capture", CAPTURES, ids=[path.stem for path in CAPTURES])
def test_captured_batches_are_read(capture):
    batch = capture.read_bytes()
    header = read_header(batch)

    assert Compression(header.compression).name.lower() == capture.stem.split("-")[1]
    assert crc_is_valid(batch, 0, len(batch))
    validate_records(batch, header, need_keys=True)
    assert decode_records(batch) == EXPECTED


@pytest.mark.parametrize("compression", list(Compression))
def test_batches_of_aiokafka_are_read(compression):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for record in EXPECTED:
        builder.append(record.offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = builder.build()

    assert read_header(batch).compression == compression
    assert crc_is_valid(batch, 0, len(batch))
    assert decode_records(batch) == EXPECTED


@pytest.mark.parametrize("compression", list(Compression))
def test_aiokafka_reads_our_batches(compression):
    batch = DefaultRecordBatch(bytes(encode_batch(EXPECTED, compression=compression)))

    assert batch.validate_crc()
    assert [
        Record(found.offset, found.timestamp, found.key, found.value, tuple(found.headers)) for found in batch
    ] == EXPECTED


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_batches_of_kafka_python_are_read(compression):
    builder = MemoryRecordsBuilder(2, int(compression), 10**6)
    for record in EXPECTED:
        builder.append(record.timestamp_ms, record.key, record.value, list(record.headers))
    builder.close()
    batch = builder.buffer()

    assert read_header(batch).compression == compression
    assert decode_records(batch) == EXPECTED


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_kafka_python_reads_our_batches(compression):
    batch = MemoryRecords(bytes(encode_batch(EXPECTED, compression=compression))).next_batch()

    assert batch.validate_crc()
    assert [
        Record(found.offset, found.timestamp, found.key, found.value, tuple(found.headers)) for found in batch
    ] == EXPECTED
