import pytest

from tests.log.box import Box


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    made.drop()


@pytest.fixture
def log(box):
    return box.open()
