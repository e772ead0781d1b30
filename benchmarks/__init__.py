"""Millstream beside Apache Kafka: the same questions, the same client, the same machine, the same run.

`python -m benchmarks.run` asks them all. One module a question; each names the rows of the bar that it fills.
"""
