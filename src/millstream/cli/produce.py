"""`millstream produce`: send records from the command line, or from stdin.

Why: `echo | millstream produce` is the shortest way to put something into a topic, and to script a test.
Invariants: exit code 0 means that every record was acknowledged with acks=all; a line that can't be a record ends
it with its number, after what came before was acknowledged; stdin is streamed, never held whole.
"""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from millstream.cli import encodings
from millstream.cli.encodings import Encoding, encode, unescape
from millstream.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, KafkaOptions, Topic, connect
from millstream.cli.output import Format, emit_value, note
from millstream.client.connection import Connection
from millstream.client.records import Headers, OutgoingRecord
from millstream.model.errors import BadRequest
from millstream.model.topics import check_topic_name

if TYPE_CHECKING:
    from millstream.client.produce import ProduceReport

app = typer.Typer(rich_markup_mode=None, add_completion=False)

CompressionName = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@app.command()
def produce(
    topic: Topic,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="Records to send; none reads stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Key of every record.")] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", "-K", metavar="TEXT", help="What lies before TEXT is the key."),
    ] = None,
    key_format: Annotated[Encoding, typer.Option("--key-format", "-k", help=encodings.HELP)] = "text",
    value_format: Annotated[Encoding, typer.Option("--value-format", "-v", help=encodings.HELP)] = "text",
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Header of every record. Repeatable."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Default: the key decides.")
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-Z", help="Empty keys and values are sent as null.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a record as `tail -o json` writes it.")
    ] = False,
    compression: Annotated[
        CompressionName, typer.Option("--compression", "-z", help="How batches are packed.")
    ] = "none",
    output: Annotated[
        Format | None, typer.Option("--output", "-o", metavar="json|yaml", help="Report on stdout.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    options: KafkaOptions = None,
) -> None:
    """Send records, and wait until the broker has acknowledged them all.

    \b
    millstream produce orders '{"id": 1}' '{"id": 2}' --key customer-7
    seq 1000 | millstream produce numbers
    printf 'a:1\\nb:2\\nc:\\n' | millstream produce prices -K : -Z        c is a tombstone
    millstream produce events -v json -H source=shell < events.jsonl    refuses a line that isn't JSON
    millstream tail a --from beginning -o json | millstream produce b --json

    Keys choose partitions as Java clients do.
    """
    check_topic_name(topic)
    if key is not None and key_delimiter is not None:
        raise BadRequest("give --key or --key-delimiter, not both")
    reader = _LineReader(
        key=None if key is None else encode(key, key_format),
        delimiter=None if key_delimiter is None else unescape(key_delimiter),
        key_format=key_format,
        value_format=value_format,
        headers=_headers(header or ()),
        partition=partition,
        null=null,
    )
    records = _records(values, reader.json_record if as_json else reader.record)
    connection = connect(bootstrap, options)
    existed = _require_usable(connection, topic)
    # A few values typed at a prompt should not wait half a second for a producer id; a stream must not repeat.
    report, wrong_line = _send(connection, topic, records, compression, idempotent=not values)
    _tell(topic, report, existed, output)
    if wrong_line is not None:
        raise wrong_line


def _send(
    connection: Connection,
    topic: str,
    records: Iterator[OutgoingRecord],
    compression: str,
    *,
    idempotent: bool,
) -> "tuple[ProduceReport, BadRequest | None]":
    """What was acknowledged, and the line that ended it early, if one did."""
    from millstream.client.produce import Sender

    wrong_line: BadRequest | None = None
    with Sender(connection, topic, compression=compression, idempotent=idempotent) as sender:
        try:
            for record in records:
                sender.send(record)
        except _WrongLine as error:
            wrong_line = error  # what came before it is still sent and acknowledged
    return sender.report, wrong_line


def _records(values: list[str] | None, parse: Callable[[bytes], OutgoingRecord]) -> Iterator[OutgoingRecord]:
    if values:
        for value in values:
            yield parse(value.encode("utf-8", "surrogateescape"))
        return
    if sys.stdin.isatty():
        note("one record a line; Ctrl-D ends")
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield parse(line.removesuffix(b"\n").removesuffix(b"\r"))
        except BadRequest as error:
            raise _WrongLine(f"line {number}: {error}; nothing was sent from there on") from None


class _WrongLine(BadRequest):
    """A line of stdin that can't be a record."""


class _LineReader:
    """Turns a line into a record."""

    def __init__(
        self,
        *,
        key: bytes | None,
        delimiter: bytes | None,
        key_format: Encoding,
        value_format: Encoding,
        headers: Headers,
        partition: int | None,
        null: bool,
    ) -> None:
        self._key = key
        self._delimiter = delimiter
        self._key_format = key_format
        self._value_format = value_format
        self._headers = headers
        self._partition = partition
        self._null = null

    def record(self, line: bytes) -> OutgoingRecord:
        key, value = self._key, line
        if self._delimiter is not None:
            before, found, after = line.partition(self._delimiter)
            if found:
                key, value = self._encoded(before, self._key_format), after
        return OutgoingRecord(
            key=None if self._null and key == b"" else key,
            value=None if self._null and value == b"" else self._encoded(value, self._value_format),
            headers=self._headers,
            partition=self._partition,
        )

    def json_record(self, line: bytes) -> OutgoingRecord:
        import json

        try:
            found = json.loads(line)
        except ValueError as error:
            raise BadRequest(f"not JSON ({error})") from None
        if not isinstance(found, dict) or "value" not in found:
            raise BadRequest('--json wants objects with a "value", such as {"key": "a", "value": "b"}')
        return OutgoingRecord(
            key=self._key if found.get("key") is None else _part(found, "key", self._key_format),
            value=_part(found, "value", self._value_format),
            headers=(*_json_headers(found.get("headers")), *self._headers),
            partition=self._partition,
            timestamp_ms=_json_timestamp(found.get("timestamp_ms")),
        )

    def _encoded(self, data: bytes, encoding: Encoding) -> bytes:
        # Text is passed through as it came, whatever its character set.
        return data if encoding == "text" else encode(data.decode("utf-8", "surrogateescape"), encoding)


def _part(found: dict[str, object], name: str, encoding: Encoding) -> bytes | None:
    """A key or value of a JSON record: text, null, or anything else as JSON."""
    value = found[name]
    if value is None:
        return None
    named = found.get(f"{name}_encoding")
    if named in ("hex", "base64"):
        return encode(str(value), "hex" if named == "hex" else "base64")
    if isinstance(value, str) and encoding != "json":
        return encode(value, encoding)
    if encoding in ("int", "long"):
        return encode(str(value), encoding)
    import json

    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _json_headers(found: object) -> Headers:
    pairs = found.items() if isinstance(found, dict) else found or ()
    try:
        return tuple(
            (str(name), None if value is None else str(value).encode("utf-8", "surrogatepass"))
            for name, value in pairs  # type: ignore[attr-defined]  # what is not pairs is refused below
        )
    except (TypeError, ValueError):
        raise BadRequest('"headers" must be [["name", "value"], ...] or an object') from None


def _json_timestamp(found: object) -> int | None:
    if found is None:
        return None
    if not isinstance(found, int) or found < 0:
        raise BadRequest('"timestamp_ms" must be milliseconds since 1970')
    return found


def _headers(pairs: list[str] | tuple[str, ...]) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not name:
            raise BadRequest(f"--header {pair!r}: write it as NAME=VALUE")
        headers.append((name, value.encode("utf-8", "surrogateescape") if separator else None))
    return tuple(headers)


def _require_usable(connection: Connection, topic: str) -> bool:
    """Whether the topic exists already; a typing error would otherwise create one without a word."""
    from millstream.client.session import AdminSession
    from millstream.client.topics import topic_names

    with AdminSession(connection) as session:
        return topic in topic_names(session)


def _tell(topic: str, report: "ProduceReport", existed: bool, output: Format | None) -> None:
    if not existed and report.records:
        note(f"topic {topic} did not exist; the broker created it")
    if output is not None:
        offsets = [
            {"partition": partition, "first": first, "last": last}
            for partition, (first, last) in sorted(report.offsets.items())
        ]
        found = {"topic": topic, "records": report.records, "value_bytes": report.value_bytes}
        emit_value({**found, "partitions": offsets}, "json" if output == "table" else output)
        return
    spread = ", ".join(f"{p}: {first}-{last}" for p, (first, last) in sorted(report.offsets.items()))
    note(f"sent {report.records} records to {topic}" + (f" (partition {spread})" if spread else ""))
