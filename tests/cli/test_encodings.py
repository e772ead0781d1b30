import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.encodings import Encoding, as_json_value, decode, encode, unescape
from millstream.model.errors import BadRequest


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_text_is_utf_8(text: str) -> None:
    assert decode(encode(text, "text"), "text") == text


@pytest.mark.parametrize("encoding", ["hex", "base64"])
@given(data=st.binary())
def test_binary_forms_give_every_byte_back(encoding: Encoding, data: bytes) -> None:
    assert encode(decode(data, encoding), encoding) == data


@given(st.integers(min_value=-(2**31), max_value=2**31 - 1))
def test_numbers_are_big_endian_as_kafkas_serializers_write_them(number: int) -> None:
    assert encode(str(number), "int") == number.to_bytes(4, "big", signed=True)
    assert decode(encode(str(number), "long"), "long") == str(number)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("{", "json"), ("zz", "hex"), ("?", "base64"), ("ü", "base64"), ("x", "int"), ("4294967296", "int")],
)
def test_what_is_not_of_that_kind_is_refused(text: str, encoding: Encoding) -> None:
    with pytest.raises(BadRequest, match=f"is not {encoding}"):
        encode(text, encoding)


def test_a_number_of_the_wrong_length_is_refused_with_its_bytes() -> None:
    with pytest.raises(BadRequest, match="3 bytes are not int: 010203"):
        decode(b"\x01\x02\x03", "int")


@pytest.mark.parametrize(
    ("data", "encoding", "expected"),
    [
        (None, "text", (None, None)),
        (b"plain", "text", ("plain", None)),
        (b"\xff", "text", ("/w==", "base64")),
        (b'{"a": 1}', "json", ({"a": 1}, None)),
        (b"{", "json", ("ew==", "base64")),
        (b"\x00\x00\x00\x07", "int", (7, None)),
        (b"\x07", "int", ("Bw==", "base64")),
        (b"\x07", "hex", ("07", "hex")),
    ],
)
def test_json_names_the_encoding_wherever_bytes_are_not_text(
    data: bytes | None, encoding: Encoding, expected: tuple[object, str | None]
) -> None:
    assert as_json_value(data, encoding) == expected


def test_escapes_stand_for_bytes() -> None:
    assert unescape(r"a\tb\n\x00\\é\q") == b"a\tb\n\x00\\" + "é".encode() + rb"\q"


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(BadRequest, match="two hex digits"):
        unescape(r"\xzz")
