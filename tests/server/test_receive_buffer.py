import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.server.receive_buffer import CAPACITY_MIN, OversizedRequest, ReceiveBuffer


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def feed(buffer: ReceiveBuffer, data: bytes) -> list[bytes]:
    """What a session does: write where it may, take every whole frame, grow when asked to."""
    frames = []
    while data:
        space = buffer.space()
        assert len(space) > 0
        count = min(len(space), len(data))
        space[:count] = data[:count]
        data = data[count:]
        buffer.wrote(count)
        while (found := buffer.next_frame()) is not None:
            frames.append(bytes(found))
        growth = buffer.growth()
        if growth:
            buffer.grow(growth)
    return frames


@given(st.lists(st.binary(max_size=200_000), max_size=6), st.lists(st.integers(1, 100_000), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_frames(payloads, cuts):
    stream = b"".join(frame(payload) for payload in payloads)
    buffer = ReceiveBuffer(1 << 20)

    frames = []
    position = 0
    for cut in [*cuts, len(stream)]:
        frames += feed(buffer, stream[position : position + cut])
        position += cut

    assert frames == payloads


def test_a_frame_larger_than_allowed_is_refused_from_its_first_four_bytes():
    buffer = ReceiveBuffer(1000)

    with pytest.raises(OversizedRequest, match="1001 bytes"):
        feed(buffer, (1001).to_bytes(4, "big"))


def test_a_negative_size_is_refused():
    with pytest.raises(OversizedRequest):
        feed(ReceiveBuffer(1000), b"\xff\xff\xff\xff")


def test_announcing_a_large_frame_takes_no_memory_until_its_bytes_arrive():
    buffer = ReceiveBuffer(100 << 20)

    feed(buffer, (100 << 20).to_bytes(4, "big") + b"x" * 100)

    assert buffer.capacity == CAPACITY_MIN


def test_a_large_frame_is_read_to_its_exact_end():
    buffer = ReceiveBuffer(1 << 20)
    feed(buffer, frame(b"x" * 200_000))

    feed(buffer, (200_000).to_bytes(4, "big"))

    assert len(buffer.space()) == 200_000


def test_an_empty_buffer_gives_its_memory_back():
    buffer = ReceiveBuffer(1 << 20)
    feed(buffer, frame(b"x" * 500_000))

    freed = buffer.shrink()

    assert freed > 0
    assert buffer.capacity == CAPACITY_MIN
    assert feed(buffer, frame(b"again")) == [b"again"]


def test_a_buffer_that_holds_part_of_a_frame_keeps_it():
    buffer = ReceiveBuffer(1 << 20)
    feed(buffer, frame(b"x" * 500_000) + b"\0\0")

    assert buffer.shrink() == 0
    assert feed(buffer, b"\0\x01z") == [b"z"]
