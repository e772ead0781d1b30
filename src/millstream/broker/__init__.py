"""The Kafka requests: one handler file for each family, and the topics they work on.

Why: `server/` has the bytes, `log/` has the data; here it is decided what a request means.
Invariants: everything runs on the event-loop thread; a handler answers each call exactly once.
"""
