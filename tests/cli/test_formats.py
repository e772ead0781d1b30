import json

import pytest

from millstream.cli.formats import for_terminal, format_writer, json_writer, row_writer, yaml_writer
from millstream.client.records import ReceivedRecord
from millstream.model.errors import BadRequest

RECORD = ReceivedRecord(
    topic="orders",
    partition=2,
    offset=42,
    timestamp_ms=1_794_782_030_979,
    key=b"k",
    value=b"v\xff",
    headers=(("a", b"1"), ("n", None)),
)
TOMBSTONE = ReceivedRecord(
    topic="orders", partition=0, offset=0, timestamp_ms=None, key=None, value=None, headers=()
)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"%s\n", b"v\xff\n"),
        (r"%t-%p@%o %k=%s", b"orders-2@42 k=v\xff"),
        ("%T", b"1794782030979"),
        ("%D", b"2026-11-15T22:33:50.979Z"),
        ("%h", b"a=1,n=NULL"),
        ("%K/%S", b"1/2"),
        ("%R%s", b"\x00\x00\x00\x02v\xff"),
        ("100%%", b"100%"),
        ("%%s", b"%s"),
        (r"\x00|", b"\x00|"),
        ("plain", b"plain"),
    ],
)
def test_a_format_is_written_as_kcat_would(template: str, expected: bytes) -> None:
    assert format_writer(template, key="text", value="text")(RECORD) == expected


def test_what_is_not_there_is_written_as_null() -> None:
    assert format_writer("%k %s %K %S %T %D", key="text", value="text")(TOMBSTONE) == b"NULL NULL -1 -1 -1 -"


def test_keys_and_values_are_written_in_the_form_asked_for() -> None:
    assert format_writer("%k:%s", key="hex", value="base64")(RECORD) == b"6b:dv8="


@pytest.mark.parametrize("template", ["%q", "50%", "% s"])
def test_an_unknown_letter_is_refused_with_those_that_are_known(template: str) -> None:
    with pytest.raises(BadRequest, match="%s value, %k key"):
        format_writer(template, key="text", value="text")


def test_a_json_line_holds_everything_and_stays_one_line() -> None:
    line = json_writer(key="text", value="text")(RECORD)

    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 2,
        "offset": 42,
        "timestamp_ms": 1_794_782_030_979,
        "key": "k",
        "value": "dv8=",
        "headers": [["a", "1"], ["n", None]],
        "value_encoding": "base64",
    }


def test_yaml_is_one_document_for_each_record() -> None:
    assert yaml_writer(key="text", value="text")(TOMBSTONE).startswith(b"---\ntopic: orders\n")


def test_a_row_cant_break_its_line() -> None:
    record = ReceivedRecord(
        topic="t", partition=0, offset=0, timestamp_ms=0, key=b"a\tb", value=b"x\n\x1b[31my", headers=()
    )

    row = row_writer(key="text", value="text")(record)

    assert row.count(b"\n") == 1
    assert rb"x\n\x1b[31my" in row


def test_a_terminal_gets_no_control_characters_but_lines_and_tabs() -> None:
    assert for_terminal(b"a\x1b[2J\x07\tb\r\n\x7f") == b"a?[2J?\tb\r\n?"
