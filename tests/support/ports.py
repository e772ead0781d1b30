"""Ports nobody listens on.

Why: servers that can't bind port 0 and say which one they got need to be told a free one.
Invariants: the ports of one call differ. Another process may still take one: callers retry their start.
"""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
