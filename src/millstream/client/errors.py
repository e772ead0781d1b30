"""What can go wrong between us and a broker, each in one sentence that says what to do.

Why: librdkafka's errors are codes with a few words; a person needs the address, the topic and the next step.
Invariants: `from_kafka_error` is the only place that reads librdkafka's codes; every class belongs to one of
the families in `model.errors`; what does not exist is a `NotFound`.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from millstream.model.errors import BadRequest, CorruptData, MillstreamError, TryAgain


class BrokerError(Protocol):
    """The part of confluent_kafka.KafkaError that we read; a protocol, so that this file imports fast."""

    def code(self) -> int: ...
    def name(self) -> str: ...
    def str(self) -> str: ...
    def retriable(self) -> bool: ...


class BrokerUnreachable(TryAgain):
    def __init__(self, bootstrap: str, reason: str) -> None:
        super().__init__(
            f"no broker answers at {bootstrap} ({reason}): start one with `millstream up`, "
            "or name another with --bootstrap"
        )
        self.bootstrap = bootstrap
        self.reason = reason


class BrokerTimedOut(TryAgain):
    def __init__(self, bootstrap: str, what: str) -> None:
        super().__init__(f"{bootstrap} did not answer in time ({what}): try again, or look at its log")
        self.bootstrap = bootstrap


class BrokerBusy(TryAgain):
    """A passing state of the broker: a coordinator loads, a leader moves, the disk is full."""

    def __init__(self, subject: str, reason: str, advice: str = "try again shortly") -> None:
        super().__init__(f"{subject}: {reason}: {advice}")
        self.subject = subject
        self.reason = reason


class InvalidOption(BadRequest):
    """An option of the client library (`-X`), or an address, that it refuses."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: see librdkafka's CONFIGURATION.md for the options of -X")
        self.reason = reason


class NotFound(BadRequest):
    """What was named does not exist."""


class UnknownTopic(NotFound):
    def __init__(self, topic: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"topic {topic!r} does not exist: {_near_names(topic, known, 'topics')}")
        self.topic = topic


class UnknownPartition(NotFound):
    def __init__(self, topic: str, partition: int, count: int | None = None) -> None:
        has = "" if count is None else f": it has {count} (0 to {count - 1})"
        super().__init__(f"topic {topic!r} has no partition {partition}{has}")
        self.topic = topic
        self.partition = partition


class UnknownGroup(NotFound):
    def __init__(self, group: str, known: Iterable[str] = ()) -> None:
        super().__init__(f"group {group!r} does not exist: {_near_names(group, known, 'groups')}")
        self.group = group


class TopicExists(BadRequest):
    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} exists already: pass --if-not-exists, or choose another name")
        self.topic = topic


class GroupInUse(BadRequest):
    def __init__(self, group: str) -> None:
        super().__init__(f"group {group!r} has active members: stop its consumers, then try again")
        self.group = group


class OffsetOutOfRange(BadRequest):
    def __init__(self, topic: str, partition: int, requested: int, first: int, end: int) -> None:
        super().__init__(
            f"{topic}-{partition}: offset {requested} is outside [{first}, {end}]: "
            "start at the beginning, or raise retention.ms if it expired too soon"
        )
        self.requested = requested
        self.first = first
        self.end = end


class RecordTooLarge(BadRequest):
    def __init__(self, subject: str) -> None:
        super().__init__(
            f"{subject}: the record is too large: raise the topic's max.message.bytes, "
            "and -X message.max.bytes for the client"
        )


class NotAuthorized(BadRequest):
    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject}: {reason}: ask for the permission, or pass other credentials with -X")


class BrokerRefused(BadRequest):
    """Any other refusal, in the broker's own words."""

    def __init__(self, subject: str, name: str, reason: str) -> None:
        super().__init__(f"{subject}: {reason} ({name})" if subject else f"{reason} ({name})")
        self.subject = subject
        self.name = name


class CorruptRecords(CorruptData):
    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(
            f"{subject}: stored records are damaged ({reason}): read on behind them with a later --from"
        )


def _near_names(name: str, known: Iterable[str], noun: str) -> str:
    import difflib  # only those who mistype pay for it

    folded = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.8)
    near = near or difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(repr(folded[candidate]) for candidate in near)}?"
    return f"`millstream {noun} list` shows those that do"


_Maker = Callable[[str, str, BrokerError], MillstreamError]


def _unreachable(bootstrap: str, subject: str, error: BrokerError) -> MillstreamError:
    return BrokerUnreachable(bootstrap, _sentence(error))


def _timed_out(bootstrap: str, subject: str, error: BrokerError) -> MillstreamError:
    return BrokerTimedOut(bootstrap, subject or error.str())


def _unauthorized(bootstrap: str, subject: str, error: BrokerError) -> MillstreamError:
    return NotAuthorized(subject or bootstrap, error.str() or error.name())


def _corrupt(bootstrap: str, subject: str, error: BrokerError) -> MillstreamError:
    return CorruptRecords(subject, error.str() or error.name())


def _storage(bootstrap: str, subject: str, error: BrokerError) -> MillstreamError:
    return BrokerBusy(
        subject or bootstrap,
        "the broker can't write to its disk",
        "free some space or check the disk; `millstream doctor` shows both",
    )


# librdkafka's own codes are negative, the broker's positive; both are stable by their promise.
_BY_CODE: dict[int, _Maker] = {
    -195: _unreachable,  # _TRANSPORT
    -193: _unreachable,  # _RESOLVE
    -187: _unreachable,  # _ALL_BROKERS_DOWN
    -181: _unreachable,  # _SSL
    -192: _timed_out,  # _MSG_TIMED_OUT
    -185: _timed_out,  # _TIMED_OUT
    -166: _timed_out,  # _TIMED_OUT_QUEUE
    7: _timed_out,  # REQUEST_TIMED_OUT
    -169: _unauthorized,  # _AUTHENTICATION
    29: _unauthorized,  # TOPIC_AUTHORIZATION_FAILED
    30: _unauthorized,  # GROUP_AUTHORIZATION_FAILED
    31: _unauthorized,  # CLUSTER_AUTHORIZATION_FAILED
    58: _unauthorized,  # SASL_AUTHENTICATION_FAILED
    -188: lambda _, topic, __: UnknownTopic(topic),  # _UNKNOWN_TOPIC
    -190: lambda _, topic, __: UnknownTopic(topic),  # _UNKNOWN_PARTITION
    3: lambda _, topic, __: UnknownTopic(topic),  # UNKNOWN_TOPIC_OR_PART
    36: lambda _, topic, __: TopicExists(topic),  # TOPIC_ALREADY_EXISTS
    69: lambda _, group, __: UnknownGroup(group),  # GROUP_ID_NOT_FOUND
    68: lambda _, group, __: GroupInUse(group),  # NON_EMPTY_GROUP
    10: lambda _, subject, __: RecordTooLarge(subject),  # MSG_SIZE_TOO_LARGE
    18: lambda _, subject, __: RecordTooLarge(subject),  # RECORD_LIST_TOO_LARGE
    -186: lambda _, __, error: InvalidOption(error.str()),  # _INVALID_ARG
    -199: _corrupt,  # _BAD_MSG
    -198: _corrupt,  # _BAD_COMPRESSION
    2: _corrupt,  # INVALID_MSG, Kafka's CORRUPT_MESSAGE
    56: _storage,  # KAFKA_STORAGE_ERROR
}


def from_kafka_error(error: BrokerError, *, bootstrap: str, subject: str = "") -> MillstreamError:
    """Our error for librdkafka's. `subject` is the topic, group or partition that it is about."""
    maker = _BY_CODE.get(error.code())
    if maker is not None:
        return maker(bootstrap, subject, error)
    if error.retriable():
        return BrokerBusy(subject or bootstrap, error.str() or error.name())
    return BrokerRefused(subject, error.name(), _sentence(error))


def _sentence(error: BrokerError) -> str:
    text = (
        error.str()
        .removeprefix("Failed to get metadata: ")
        .removeprefix("Broker: ")
        .removeprefix("Local: ")
        .strip()
        .rstrip(".")
    )
    return text or error.name()
