"""How `tail` writes a record: a format string, a JSON line, a YAML document, a row.

Why: kcat's format strings are what people know; JSON lines are what programs read.
Invariants: a format string is parsed once; unknown letters are refused, not printed; JSON keys never change
with the data, except `key_encoding` and `value_encoding` when bytes had to be written as base64.
"""

import json
import struct
from collections.abc import Callable

from millstream.cli.encodings import Encoding, as_json_value, decode, unescape
from millstream.cli.output import visible
from millstream.client.positions import time_text
from millstream.client.records import ReceivedRecord
from millstream.model.errors import BadRequest

Writer = Callable[[ReceivedRecord], bytes]

HELP = "%s value, %k key, %t topic, %p partition, %o offset, %T time in ms, %D date, %h headers, "
HELP += "%S and %K their lengths, %% percent; \\n, \\t and \\xNN as in C"


def format_writer(template: str, *, key: Encoding, value: Encoding, null: str = "NULL") -> Writer:
    """A writer for a kcat-like format string. Raises BadRequest for a letter it doesn't know."""
    letters = _letters(key, value, null.encode())
    parts: list[Writer | bytes] = []
    pieces = template.split("%")
    parts.append(unescape(pieces[0]))
    position = 1
    while position < len(pieces):
        piece = pieces[position]
        if piece == "" and position + 1 < len(pieces):  # `%%`
            parts.append(b"%" + unescape(pieces[position + 1]))
            position += 2
            continue
        letter = piece[:1]
        if letter not in letters:
            raise BadRequest(f"%{letter} in --format means nothing: {HELP}")
        parts += [letters[letter], unescape(piece[1:])]
        position += 1

    def write(record: ReceivedRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return write


def _letters(key: Encoding, value: Encoding, null: bytes) -> dict[str, Writer]:
    return {
        "s": lambda r: _bytes(r.value, value, null),
        "k": lambda r: _bytes(r.key, key, null),
        "t": lambda r: r.topic.encode(),
        "p": lambda r: b"%d" % r.partition,
        "o": lambda r: b"%d" % r.offset,
        "T": lambda r: b"%d" % (-1 if r.timestamp_ms is None else r.timestamp_ms),
        "D": lambda r: b"-" if r.timestamp_ms is None else time_text(r.timestamp_ms).encode(),
        "h": _headers,
        "S": lambda r: b"%d" % (-1 if r.value is None else len(r.value)),
        "K": lambda r: b"%d" % (-1 if r.key is None else len(r.key)),
        "R": lambda r: struct.pack(">i", -1 if r.value is None else len(r.value)),
    }


def _bytes(data: bytes | None, encoding: Encoding, null: bytes) -> bytes:
    if data is None:
        return null
    if encoding in ("text", "json"):
        return data  # as it is: what was sent comes out, byte for byte
    return decode(data, encoding).encode()


def _headers(record: ReceivedRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if v is None else v) for name, v in record.headers)


def json_object(record: ReceivedRecord, *, key: Encoding, value: Encoding) -> dict[str, object]:
    """What `-o json` writes and `produce --json` reads."""
    key_value, key_encoding = as_json_value(record.key, key)
    value_value, value_encoding = as_json_value(record.value, value)
    found: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": key_value,
        "value": value_value,
        "headers": [[name, as_json_value(v, "text")[0]] for name, v in record.headers],
    }
    if key_encoding is not None:
        found["key_encoding"] = key_encoding
    if value_encoding is not None:
        found["value_encoding"] = value_encoding
    return found


def json_writer(*, key: Encoding, value: Encoding) -> Writer:
    def write(record: ReceivedRecord) -> bytes:
        found = json_object(record, key=key, value=value)
        return json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"

    return write


def yaml_writer(*, key: Encoding, value: Encoding) -> Writer:
    import yaml

    def write(record: ReceivedRecord) -> bytes:
        found = json_object(record, key=key, value=value)
        text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True, explicit_start=True)
        return str(text).encode("utf-8", "backslashreplace")

    return write


ROW_HEADING = f"{'PARTITION':>9}  {'OFFSET':>10}  {'TIME':<24}  {'KEY':<20}  VALUE\n".encode()


def row_writer(*, key: Encoding, value: Encoding) -> Writer:
    """Rows with fixed columns, since a stream has no widest value; control characters are escaped."""

    def write(record: ReceivedRecord) -> bytes:
        time = "-" if record.timestamp_ms is None else time_text(record.timestamp_ms)
        cells = (_cell(record.key, key), _cell(record.value, value))
        row = f"{record.partition:>9}  {record.offset:>10}  {time:<24}  {cells[0]:<20}  {cells[1]}\n"
        return row.encode("utf-8", "backslashreplace")

    return write


def _cell(data: bytes | None, encoding: Encoding) -> str:
    return "-" if data is None else visible(decode(data, encoding))


# Everything below a space but tab, newline and carriage return, and DEL.
_CONTROLS = bytes(b for b in range(32) if b not in (9, 10, 13)) + b"\x7f"
_HARMLESS = bytes.maketrans(_CONTROLS, b"?" * len(_CONTROLS))


def for_terminal(data: bytes) -> bytes:
    """Without the bytes that would steer a terminal: a record may hold anything."""
    return data.translate(_HARMLESS)
