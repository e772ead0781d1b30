"""Sockets: listeners, sessions, limits.

Why: the only room that touches the network; everything below it takes bytes or requests.
"""
