"""The words every room shares: errors, topics, settings, the clock.

Why: rooms above agree on these values without seeing each other.
Invariants: nothing here does I/O; values are frozen.
"""
