"""The root of every error we raise on purpose, and its four families.

Why: a caller decides what to do by family, a person reads the sentence.
Invariants: a message says what happened, with which values, and what to do; the values are attributes.
Wire error codes are not here: `wire/errors.py` maps classes to codes in one table.
"""


class MillstreamError(Exception):
    """Base of all errors raised on purpose. `str(error)` is one line for a person."""


class BadRequest(MillstreamError):
    """You asked wrongly: the same call will fail again until it is changed."""


class PeerError(MillstreamError):
    """The other side of a connection broke its protocol; the connection can't go on."""


class CorruptData(MillstreamError):
    """Stored bytes are not what was written."""


class TryAgain(MillstreamError):
    """Nothing is wrong with the request; the same call may succeed later."""


class InvalidSetting(BadRequest):
    """A setting, of the node or of a topic, that can't be taken."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"{name}={value}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


class InvalidTopicName(BadRequest):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"topic name {name!r} {reason}")
        self.name = name
