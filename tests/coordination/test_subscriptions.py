"""The topics inside a consumer's metadata."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.coordination.subscriptions import subscribed_topics
from tests.coordination.room import subscription


def test_the_topics_of_a_subscription_are_read():
    assert subscribed_topics(subscription("orders", "returns")) == {"orders", "returns"}


def test_a_subscription_to_nothing_is_a_subscription():
    assert subscribed_topics(subscription()) == frozenset()


def test_what_later_versions_append_is_not_read():
    version_3 = struct.pack(">h", 3) + subscription("orders")[2:] + b"owned partitions, generation, rack"

    assert subscribed_topics(version_3) == {"orders"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00",
        struct.pack(">hi", -1, 0),
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -1),
        struct.pack(">hih", 0, 1, 7) + b"orders",
        struct.pack(">hih", 0, 1, 2) + b"\xff\xff",
    ],
)
def test_what_is_no_subscription_is_none(garbage):
    assert subscribed_topics(garbage) is None


@given(st.binary(max_size=64))
def test_any_bytes_are_topics_or_none(data):
    found = subscribed_topics(data)

    assert found is None or isinstance(found, frozenset)


@given(st.frozensets(st.text(max_size=20).filter(str.isascii), max_size=5))
def test_topics_survive_the_format(topics):
    assert subscribed_topics(subscription(*topics)) == topics
