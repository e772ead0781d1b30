"""kio as the judge of our codec: values at random, and their way from and to its dataclasses.

Invariants: the fields are walked by kio's dataclasses alone, so a mistake in `messages.json` can't hide;
values are those that both sides can hold (kio has no negative dates, for one).
"""

import dataclasses
import datetime
import io
import random
import typing
import uuid
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from tests.wire.extract import rename

ZERO = b"\0" * 16
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "shop.orders", "größe", "\0", "x" * 126, "x" * 127, "y" * 300)


def schema_class(api_key: int, version: int, side: str) -> Any:
    load: Any = load_request_schema if side == "request" else load_response_schema
    return load(api_key, version)


def kio_bytes(instance: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(instance))(buffer, instance)
    return buffer.getvalue()


def kio_read(cls: Any, data: bytes) -> Any:
    instance, size = entity_reader(cls)(data, 0)
    assert size == len(data), "kio left bytes over"
    return instance


def random_values(cls: Any, rng: random.Random) -> dict[str, Any]:
    """A message in our shape: nested dicts with our names."""
    return {name: _random(part, rng) for name, part in _parts(cls).items()}


def to_kio(cls: Any, values: dict[str, Any]) -> Any:
    """Our shape as an instance of kio's class."""
    parts = _parts(cls)
    return cls(**{part.kio_name: _to_kio(part, values[name]) for name, part in parts.items()})


@dataclasses.dataclass(frozen=True)
class Part:
    """What kio says about one field."""

    kio_name: str
    kafka_type: str
    cls: Any
    is_array: bool
    is_nullable: bool
    is_tagged: bool


def _parts(cls: Any) -> dict[str, Part]:
    parts = {}
    for field in dataclasses.fields(cls):
        kafka_type = field.metadata.get("kafka_type", "struct")
        outer, is_nullable = _without_none(field.type)
        is_array = typing.get_origin(outer) is tuple
        inner = _without_none(typing.get_args(outer)[0])[0] if is_array else outer
        part = Part(field.name, kafka_type, inner, is_array, is_nullable, "tag" in field.metadata)
        parts[rename(field.name, field.metadata.get("kafka_type"))] = part
    return parts


def _without_none(kind: Any) -> tuple[Any, bool]:
    if typing.get_origin(kind) is not tuple and type(None) in typing.get_args(kind):
        return next(arg for arg in typing.get_args(kind) if arg is not type(None)), True
    return kind, False


def _random(part: Part, rng: random.Random) -> Any:
    if part.is_nullable and part.kafka_type not in ("uuid", "datetime_i64") and rng.random() < 0.3:
        return None
    if part.is_array:
        return [_random_item(part, rng) for _ in range(rng.choice((0, 1, 2, 3)))]
    return _random_item(part, rng)


def _random_item(part: Part, rng: random.Random) -> Any:
    match part.kafka_type:
        case "struct":
            return random_values(part.cls, rng)
        case "int8" | "int16" | "int32" | "int64" as kind:
            high = 1 << (_BITS[kind] - 1)
            return rng.choice((0, -1, 1, high - 1, -high, rng.randrange(-high, high)))
        case "uint16":
            return rng.choice((0, 1, 9092, 65535))
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.uniform(-1e9, 1e9)
        case "string":
            return rng.choice(_TEXTS)
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 127, 128, 1000)))
        case "uuid":
            return rng.choice((ZERO, rng.randbytes(16)))
        case "error_code":
            return int(rng.choice(tuple(ErrorCode)))
        case "timedelta_i32":
            return rng.choice((0, -1, 30_000, 2**31 - 1, -(2**31)))
        case "timedelta_i64":
            return rng.choice((0, -1, 30_000, 2**40))
        case "datetime_i64":
            return rng.choice((0, 1_700_000_000_123)) if not part.is_nullable else rng.choice((-1, 2**40))
    raise AssertionError(f"unknown type {part.kafka_type}")


def _to_kio(part: Part, value: Any) -> Any:
    if value is None:
        return None
    if part.is_array:
        return tuple(_to_kio_item(part, item) for item in value)
    return _to_kio_item(part, value)


def _to_kio_item(part: Part, value: Any) -> Any:
    match part.kafka_type:
        case "struct":
            return to_kio(part.cls, value)
        case "uuid":
            return None if value == ZERO else uuid.UUID(bytes=value)
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * MILLISECOND
        case "datetime_i64":
            return None if value == -1 else EPOCH + value * MILLISECOND
    return value
