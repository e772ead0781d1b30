"""Values that stand for "nothing" or "everything" in metadata answers."""

NO_ID = bytes(16)
"""The topic id of a topic that has none or is unknown."""

NOT_ASKED = -(2**31)
"""Authorized operations that were not asked for."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# Numbers are those of Kafka's AclOperation. Nobody is refused anything without an authorizer.
TOPIC_OPERATIONS = _bits(3, 4, 5, 6, 7, 8, 10, 11)
CLUSTER_OPERATIONS = _bits(5, 7, 8, 9, 10, 11, 12)
