"""Partition logs: segments of record batches on disk, with all that keeps them findable and safe.

Why: everything that happens is appended here once; every other part of the system is a reader.
Invariants: one thread owns all of it, but for the sync threads, which only call fdatasync on what they are
handed; acknowledged bytes are never dropped because some other file is missing; every file but the segments
themselves can be derived from them.
"""
