"""Exit codes, and which error gives which.

Why: scripts branch on them, so they are few, documented and stable.
Invariants: every error ends in exactly one code; a traceback is shown only under MILLSTREAM_DEBUG=1.
"""

import errno
import os
import sys

from millstream.client.errors import (
    BrokerRefused,
    BrokerTimedOut,
    BrokerUnreachable,
    GroupInUse,
    NotAuthorized,
    NotFound,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicExists,
)
from millstream.model.errors import BadRequest, MillstreamError

OK = 0
FAILED = 1
WRONG_USAGE = 2
NOT_FOUND = 3
UNREACHABLE = 4
INTERRUPTED = 130

HELP = "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 broker unreachable, 130 interrupted."

_BY_CLASS: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, NOT_FOUND),
    (BrokerUnreachable, UNREACHABLE),
    (BrokerTimedOut, UNREACHABLE),
    (TopicExists, FAILED),
    (GroupInUse, FAILED),
    (OffsetOutOfRange, FAILED),
    (RecordTooLarge, FAILED),
    (NotAuthorized, FAILED),
    (BrokerRefused, FAILED),
    (BadRequest, WRONG_USAGE),
)


def exit_code_of(error: BaseException) -> int:
    return next((code for kind, code in _BY_CLASS if isinstance(error, kind)), FAILED)


def report(error: BaseException) -> int:
    """Say what went wrong in one line on stderr, and return the exit code."""
    if debugging():
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    say(sentence(error))
    return exit_code_of(error)


def sentence(error: BaseException) -> str:
    if isinstance(error, MillstreamError):
        return str(error)
    if isinstance(error, OSError):
        return _os_sentence(error)
    return (
        f"unexpected {type(error).__name__}: {_one_line(str(error))}: this is a fault in millstream; "
        "MILLSTREAM_DEBUG=1 shows where"
    )


def say(text: str) -> None:
    """One line on stderr, from us."""
    print(f"millstream: {_one_line(text)}", file=sys.stderr)  # the command line prints


def debugging() -> bool:
    return os.environ.get("MILLSTREAM_DEBUG", "") not in ("", "0")


def _os_sentence(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{_one_line(str(error))}: choose another port, or 0 for a free one; "
            "`millstream doctor` shows who has it"
        )
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or _one_line(str(error))}: check the path, its permissions and the disk"


def _one_line(text: str) -> str:
    return " ".join(text.split())
