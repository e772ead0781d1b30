"""What holds for every test.

Hypothesis has no deadline: a slow machine is not a defect. And every answer that an in-process node gives is
checked for keys that no version of its message has, which the writer would silently leave out.
"""

import pytest
from hypothesis import settings

settings.register_profile("millstream", deadline=None)
settings.load_profile("millstream")


@pytest.fixture(scope="session", autouse=True)
def _answers_have_known_keys_only():
    from millstream.broker import call
    from millstream.wire.schema import unknown_keys

    make_writer = call.response_writer
    misspelled = set()

    def checked(api_key, version):
        write = make_writer(api_key, version)

        def checked_write(response):
            misspelled.update(f"{api_key!r} {key}" for key in unknown_keys(api_key, response))
            return write(response)

        return checked_write

    call.response_writer = checked
    yield
    call.response_writer = make_writer
    assert not misspelled
