"""What we ship for users' tests: a real node in a fixture, ready in a fraction of a second.

    from millstream.testing import running_node

    with running_node() as node:
        producer = Producer({"bootstrap.servers": node.bootstrap_servers})

The pytest fixture `millstream_node` is there as soon as the package is installed.
Why lazily: pytest imports this package in every project that has Millstream installed; a node is imported when
one is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.testing.clock import ManualClock
    from millstream.testing.running import RunningNode, running_node

__all__ = ["ManualClock", "RunningNode", "running_node"]


def __getattr__(name: str) -> Any:
    if name == "ManualClock":
        from millstream.testing.clock import ManualClock

        return ManualClock
    if name in ("RunningNode", "running_node"):
        from millstream.testing import running

        return getattr(running, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
