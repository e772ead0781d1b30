"""The way in: the thin layer over confluent-kafka that every room above uses.

Why: the rooms above reach the log through the Kafka protocol and nothing else, so they run unchanged on the
embedded node and on an Apache Kafka cluster.
Invariants: every failure is one of `client.errors`, in one sentence that says what to do; no call waits
without a bound; nothing here knows that an embedded engine exists.

A reader's path: `connection` (where and how) → `session` (one admin connection) → `topics`, `offsets`,
`groups`, `reset`, `cluster`, `sizes` (questions and changes) → `produce` and `read` (records) → `outlook`
(arithmetic).
"""
