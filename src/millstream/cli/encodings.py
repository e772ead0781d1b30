"""Bytes as people write them: text, JSON, hex, base64, whole numbers.

Why: records are bytes, a command line is text; both directions and both commands use the same words.
Invariants: `encode` then `decode` gives the text back; what does not fit raises BadRequest with the reason;
numbers are big-endian, as Kafka's own serializers write them.
"""

import binascii
from typing import Any, Literal

from millstream.model.errors import BadRequest

Encoding = Literal["text", "json", "hex", "base64", "int", "long"]
HELP = "text, json, hex, base64, int (4 bytes) or long (8 bytes)"
_INT_BYTES = {"int": 4, "long": 8}


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes that a person wrote as `text`. JSON is checked, not changed."""
    try:
        match encoding:
            case "text":
                return text.encode("utf-8", "surrogateescape")
            case "json":
                import json

                json.loads(text)
                return text.encode("utf-8", "surrogateescape")
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
            case "int" | "long":
                return int(text).to_bytes(_INT_BYTES[encoding], "big", signed=True)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"{_shortened(text)!r} is not {encoding} ({error})") from None


def decode(data: bytes, encoding: Encoding) -> str:
    """The bytes as a person reads them. Raises BadRequest when they are not of that kind."""
    match encoding:
        case "text" | "json":
            return data.decode("utf-8", "backslashreplace")
        case "hex":
            return data.hex()
        case "base64":
            return binascii.b2a_base64(data, newline=False).decode("ascii")
        case "int" | "long":
            if len(data) != _INT_BYTES[encoding]:
                raise BadRequest(f"{len(data)} bytes are not {encoding}: {data[:16].hex()}")
            return str(int.from_bytes(data, "big", signed=True))


def as_json_value(data: bytes | None, encoding: Encoding) -> tuple[Any, str | None]:
    """(value, encoding to name beside it or None). Bytes that are not as expected come as base64."""
    if data is None:
        return None, None
    if encoding in ("hex", "base64"):
        return decode(data, encoding), encoding
    if encoding in ("int", "long"):
        try:
            return int(decode(data, encoding)), None
        except BadRequest:
            return decode(data, "base64"), "base64"
    try:
        text = data.decode("utf-8")
        if encoding == "text":
            return text, None
        import json

        return json.loads(text), None
    except ValueError:
        return decode(data, "base64"), "base64"


def unescape(text: str) -> bytes:
    r"""`\n`, `\t`, `\r`, `\0`, `\\` and `\xNN` as the bytes they stand for."""
    simple = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
    result = bytearray()
    position = 0
    while position < len(text):
        character = text[position]
        following = text[position + 1 : position + 2]
        if character == "\\" and following in simple:
            result += simple[following]
            position += 2
        elif character == "\\" and following == "x":
            digits = text[position + 2 : position + 4]
            try:
                result += bytes.fromhex(digits)
            except ValueError:
                raise BadRequest(f"\\x{digits} in {text!r}: write two hex digits") from None
            position += 4
        else:
            result += character.encode("utf-8", "surrogateescape")
            position += 1
    return bytes(result)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
