"""Bytes to requests and back: the Kafka protocol without sockets or clocks.

The way of a request: `frames` reads its header, `apis` says whether it is served, `schema` gives the function
that reads its body, and later the one that writes the answer. Behind `schema`: `shapes` (what each message
holds, from `messages.json`), `readers` and `writers` (which make those functions), `emitting` and `varints`.
`produce` and `fetch` are made by hand, for speed.
"""
