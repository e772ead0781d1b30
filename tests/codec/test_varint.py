import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.codec.errors import CorruptBatch
from millstream.codec.varint import read_varint, read_varlong, write_varint


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_32_bit_value_survives_a_round_trip(value):
    output = bytearray(b"ab")

    write_varint(output, value)

    assert read_varint(output, 2) == (value, len(output))


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_64_bit_value_survives_a_round_trip(value):
    output = bytearray()

    write_varint(output, value)

    assert read_varlong(output, 0) == (value, len(output))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (300, "d804")],
)
def test_small_magnitudes_take_few_bytes(value, encoded):
    output = bytearray()

    write_varint(output, value)

    assert output.hex() == encoded


@pytest.mark.parametrize("encoded", ["ffffffffff01", "ffffffff1f", "8080808080"])
def test_a_varint_of_more_than_32_bits_is_corrupt(encoded):
    with pytest.raises(CorruptBatch):
        read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffffff01", "ffffffffffffffffff03"])
def test_a_varlong_of_more_than_64_bits_is_corrupt(encoded):
    with pytest.raises(CorruptBatch):
        read_varlong(bytes.fromhex(encoded), 0)


@given(st.binary(max_size=12))
def test_arbitrary_bytes_give_a_value_or_a_known_error(data):
    try:
        value, position = read_varint(data, 0)
    except (CorruptBatch, IndexError):
        return

    assert -(2**31) <= value < 2**31
    assert 1 <= position <= min(5, len(data))
