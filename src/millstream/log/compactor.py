"""The process that compacts: a plan as JSON on stdin, its result as JSON on stdout.

Why: compaction is CPU work in Python, and would take the event loop's turns if it ran in its process.
Invariants: says nothing on stdout but the result; exits non-zero with one line on stderr otherwise. Its
priority is low: clients come first. Whatever it leaves behind when killed ends in `.cleaned`, and the log
discards that.
"""

import os
import sys

from millstream.log.compaction import CompactionPlan, compact
from millstream.model.errors import MillstreamError

NICENESS = 10


def main() -> int:
    os.nice(NICENESS)
    try:
        plan = CompactionPlan.from_json(sys.stdin.buffer.read())
    except (ValueError, TypeError, KeyError) as error:
        return _fail(f"not a compaction plan: {error}")
    try:
        result = compact(plan)
    except MillstreamError as error:
        return _fail(str(error))
    except Exception as error:  # a defect of ours; the segments are as they were, and the node goes on
        return _fail(f"{plan.directory}: {type(error).__name__}: {error}")
    sys.stdout.write(result.to_json())
    return 0


def _fail(sentence: str) -> int:
    sys.stderr.write(" ".join(sentence.split()) + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
