"""Readers and writers of every message, made when first needed.

Why: the dispatcher asks for a function by key and version, and must not wait for messages nobody sends.
Names: those of Kafka in snake case; times are integers whose name ends in `_ms`; a uuid is its 16 raw bytes;
an array is a list, or None if null; records are views of the buffer. Fields that the version does not have
are there with their default. Requests and responses are shaped the same in all versions.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from millstream.wire.errors import UnsupportedVersion
from millstream.wire.readers import Reader, make_reader
from millstream.wire.shapes import ZERO_UUID, Field, Side, message
from millstream.wire.writers import Writer, make_writer

__all__ = [
    "ELEMENTS_MAX",
    "ZERO_UUID",
    "describe",
    "request_reader",
    "request_writer",
    "response_reader",
    "response_writer",
    "unknown_keys",
]


ELEMENTS_MAX = 250_000
"""Elements of all arrays of a request together: ten times the partitions that a node holds, and 40 MB."""


@cache
def request_reader(api_key: int, version: int) -> Reader:
    """A function of (buffer, position) to Struct. Raises MalformedRequest when it is called on bad bytes."""
    return _reader(api_key, version, "request")


@cache
def response_writer(api_key: int, version: int) -> Writer:
    """A function from nested dicts to the bytes of the body."""
    return _writer(api_key, version, "response")


@cache
def request_writer(api_key: int, version: int) -> Writer:
    """For clients: a function from nested dicts to the bytes of the body."""
    return _writer(api_key, version, "request")


@cache
def response_reader(api_key: int, version: int) -> Reader:
    """For clients: a function of (buffer, position) to Struct."""
    return _reader(api_key, version, "response")


def describe(api_key: int, version: int, side: Side = "request") -> list[str]:
    """The fields of a message, one line each, for a person: `topics[].name: string`."""
    return list(_describe(_fields(api_key, version, side), version, ""))


def unknown_keys(api_key: int, response: dict[str, Any], side: Side = "response") -> list[str]:
    """The paths of keys that no version of the message has: spelling mistakes, for a test to find."""
    return sorted(set(_unknown_keys(message(api_key).fields(side), response, "")))


def _reader(api_key: int, version: int, side: Side) -> Reader:
    fields, is_flexible = _fields(api_key, version, side), message(api_key).is_flexible(version)
    return make_reader(
        _label(api_key, side),
        fields,
        version,
        is_flexible=is_flexible,
        elements_max=ELEMENTS_MAX if side == "request" else None,
    )


def _writer(api_key: int, version: int, side: Side) -> Writer:
    fields, is_flexible = _fields(api_key, version, side), message(api_key).is_flexible(version)
    return make_writer(_label(api_key, side), fields, version, is_flexible=is_flexible)


def _fields(api_key: int, version: int, side: Side) -> tuple[Field, ...]:
    first, last = message(api_key).versions
    if not first <= version <= last:
        raise UnsupportedVersion(api_key, version)
    return message(api_key).fields(side)


def _label(api_key: int, side: Side) -> str:
    name = message(api_key).api_key.name.title().replace("_", "")
    return f"{name}{side.capitalize()}"


def _describe(fields: tuple[Field, ...], version: int, prefix: str) -> Iterator[str]:
    for field in fields:
        if not field.is_in(version):
            continue
        path = f"{prefix}{field.name}{'[]' if field.is_array else ''}"
        null = " or null" if field.is_nullable(version) else ""
        tag = "" if field.tag is None else f" (tag {field.tag})"
        yield f"{path}: {field.type}{null}{tag}"
        yield from _describe(field.fields, version, path + ".")


def _unknown_keys(fields: tuple[Field, ...], value: dict[str, Any], prefix: str) -> Iterator[str]:
    known = {field.name: field for field in fields}
    for key, inner in value.items():
        if key not in known:
            yield prefix + key
            continue
        field = known[key]
        if field.type == "struct" and inner is not None:
            for item in inner if field.is_array else [inner]:
                yield from _unknown_keys(
                    field.fields, item, f"{prefix}{key}{'[]' if field.is_array else ''}."
                )
