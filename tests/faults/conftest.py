"""Nodes that end with their test, however it ends."""

import pytest

from millstream.testing.process import NodeProcess
from tests.faults.asking import Asking


@pytest.fixture
def make_node(tmp_path):
    """Makes a node, not yet started, on `tmp_path/data` unless told otherwise."""
    made = []

    def make(settings=None, *, data=None, **options):
        node = NodeProcess(
            data or tmp_path / "data", settings, errors=tmp_path / f"stderr-{len(made)}", **options
        )
        made.append(node)
        return node

    yield make
    for node in made:
        node.kill()


@pytest.fixture
def ask():
    """Makes a client of a node."""
    made = []

    def make(node):
        client = Asking(node.bootstrap_servers)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()
