"""The broker that the client and cli suites talk to.

Why: both rooms must work on the embedded node and on any Kafka cluster; MILLSTREAM_TEST_BOOTSTRAP names another.
"""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

NODE_SETTINGS = {"group.min.session.timeout.ms": "500", "offsets.topic.num.partitions": "1"}


@contextmanager
def running_target(settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a broker for the length of the block."""
    given = os.environ.get("MILLSTREAM_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from millstream.testing import running_node

    with running_node(settings={**NODE_SETTINGS, **(settings or {})}) as node:
        yield node.bootstrap_servers


def unused_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:10]}"
