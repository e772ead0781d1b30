from collections.abc import Iterator

import pytest

from millstream.client.connection import Connection
from millstream.client.session import AdminSession
from millstream.client.topics import create_topic
from tests.client.target import running_target, unused_name


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with running_target() as address:
        yield address


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap=bootstrap)


@pytest.fixture
def session(connection: Connection) -> Iterator[AdminSession]:
    with AdminSession(connection) as opened:
        yield opened


@pytest.fixture
def topic(session: AdminSession) -> str:
    """A new topic with three partitions."""
    name = unused_name("topic")
    create_topic(session, name, partitions=3)
    return name


@pytest.fixture
def group() -> str:
    return unused_name("group")
