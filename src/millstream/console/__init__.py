"""The HTTP door: health and metrics.

`http` listens, `app` answers, `prometheus` writes the metrics, `status` says what the node must tell.
Invariants: this room runs on its own thread and event loop, and knows the node only through `StatusSource`.
"""
