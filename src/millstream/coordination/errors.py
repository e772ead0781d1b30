"""What can be wrong with the stored state of groups.

Why: a record that can't be read must be told apart from a request that can't be granted.
Invariants: a request never raises: it is answered with Kafka's error code.
"""

from millstream.model.errors import CorruptData


class CorruptGroupRecord(CorruptData):
    """A record of the offsets topic that is not in Kafka's format."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(
            f"record of the offsets topic: its {part} {reason}. What it said about its group is lost; "
            "restore the topic from a copy, or let the group commit again."
        )
        self.part = part
        self.reason = reason
