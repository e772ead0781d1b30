"""From our errors to Kafka's codes: the one table.

Why: the log and the coordinator raise errors in their own words and never know the wire.
Invariants: the most specific class wins; an error without a row is a defect of ours and becomes -1.
"""

from millstream.codec.errors import CorruptBatch, InvalidRecord
from millstream.log import errors as log
from millstream.model.errors import InvalidSetting, InvalidTopicName, MillstreamError
from millstream.wire.errors import ErrorCode

_CODES: dict[type[MillstreamError], ErrorCode] = {
    CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    InvalidRecord: ErrorCode.INVALID_RECORD,
    InvalidSetting: ErrorCode.INVALID_CONFIG,
    InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    log.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    log.CorruptRange: ErrorCode.CORRUPT_MESSAGE,
    log.DiskFull: ErrorCode.KAFKA_STORAGE_ERROR,
    log.LogIOError: ErrorCode.KAFKA_STORAGE_ERROR,
    log.TooManyOpenFiles: ErrorCode.KAFKA_STORAGE_ERROR,
    log.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    log.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
}


def code_of(error: MillstreamError) -> ErrorCode:
    for family in type(error).__mro__:
        code = _CODES.get(family)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
