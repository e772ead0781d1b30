"""The pytest fixture `millstream_node`, found by pytest through the package's entry point.

Why: importing is put off until the fixture is used, so that having Millstream installed costs other suites nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millstream.testing.running import RunningNode


@pytest.fixture
def millstream_node() -> "Iterator[RunningNode]":
    """A running node of this test's own."""
    from millstream.testing.running import running_node

    with running_node() as node:
        yield node
