"""Millstream: stream processing in one pip install."""

__version__ = "0.1.0"
