"""Write `wire/messages.json` from the dataclasses of kio.

Why: importing kio takes 65 ms (half a second where Hypothesis is installed) and 8 ms more for each message,
which a node that is ready in 0.3 s can't spend. So its schemas are read once, here, and stored as one table
with the versions of each field; a test holds that the stored table is what kio says.
Run `python tests/wire/extract.py` after a new version of kio.
"""

import dataclasses
import datetime
import json
import typing
import uuid
from pathlib import Path
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from millstream.wire.apis import ApiKey

Versions = dict[int, type]  # the dataclass of each version
PATH = Path(__file__).parents[2] / "src" / "millstream" / "wire" / "messages.json"
_TYPES = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
_TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


def extract() -> dict[str, Any]:
    """Every message of the keys in ApiKey, as stored."""
    return {key.name: _extract_api(key) for key in ApiKey}


def rename(name: str, kafka_type: str | None) -> str:
    """Times are plain milliseconds, and say so."""
    return name + "_ms" if kafka_type in _TIMES and not name.endswith("_ms") else name


def format_messages(messages: dict[str, Any]) -> str:
    """JSON with one line a field, so that a change reads well."""
    return "{\n" + ",\n".join(_format_api(name, api) for name, api in messages.items()) + "\n}\n"


def _extract_api(key: ApiKey) -> dict[str, Any]:
    versions = sorted(schema_name_map[api_key_map[key]])
    requests = {version: load_request_schema(key, version) for version in versions}
    responses = {version: load_response_schema(key, version) for version in versions}
    flexible = [version for version in versions if requests[version].__flexible__]
    assert [version for version in versions if responses[version].__flexible__] == flexible
    assert all(requests[version].__type__ is EntityType.request for version in versions)
    return {
        "versions": [versions[0], versions[-1]],
        "flexible": flexible[0] if flexible else None,
        "request": _merge(requests),
        "response": _merge(responses),
    }


def _merge(classes: Versions) -> list[dict[str, Any]]:
    """One list of fields for all versions, each with the versions that have it, in their wire order."""
    names: list[str] = []
    for cls in classes.values():
        place = 0
        for field in dataclasses.fields(cls):
            if field.name not in names:
                names.insert(place, field.name)
            place = names.index(field.name) + 1
    for cls in classes.values():
        own = [field.name for field in dataclasses.fields(cls)]
        assert own == [name for name in names if name in own], f"fields of {cls} change their order"
    return [_merge_field(name, classes) for name in names]


def _merge_field(name: str, classes: Versions) -> dict[str, Any]:
    fields = {
        version: field
        for version, cls in classes.items()
        for field in dataclasses.fields(cls)
        if field.name == name
    }
    shapes = {version: _shape(field) for version, field in fields.items()}
    newest = shapes[max(shapes)]
    for shape in shapes.values():
        assert {**shape, "null": 0, "cls": 0} == {**newest, "null": 0, "cls": 0}, f"{name} changes its type"
    merged = {"name": newest["name"], "type": newest["type"], "versions": _range(list(fields))}
    nullable = [version for version, shape in shapes.items() if shape["null"]]
    if nullable:
        merged["nullable"] = _range(nullable)
    for optional in ("tag", "default"):
        if newest[optional] is not None:
            merged[optional] = newest[optional]
    if newest["cls"] is not None:
        merged["fields"] = _merge({version: shape["cls"] for version, shape in shapes.items()})
    return merged


def _shape(field: Any) -> dict[str, Any]:
    kafka_type = field.metadata.get("kafka_type")
    outer, is_nullable = _strip_none(field.type)
    is_array = typing.get_origin(outer) is tuple
    inner = _strip_none(typing.get_args(outer)[0])[0] if is_array else outer
    is_struct = dataclasses.is_dataclass(inner)
    type_name = "struct" if is_struct else _TYPES.get(kafka_type, kafka_type)
    return {
        "name": rename(field.name, kafka_type),
        "type": f"[]{type_name}" if is_array else type_name,
        # A missing uuid is all zeros and a missing time is -1: neither has a null on the wire.
        "null": is_nullable and (is_array or kafka_type not in ("uuid", *_TIMES)),
        "tag": field.metadata.get("tag"),
        "default": _default(field.default, is_struct, is_array, kafka_type),
        "cls": inner if is_struct else None,
    }


def _strip_none(field_type: Any) -> tuple[Any, bool]:
    if typing.get_origin(field_type) is not tuple and type(None) in typing.get_args(field_type):
        return next(arg for arg in typing.get_args(field_type) if arg is not type(None)), True
    return field_type, False


def _default(value: Any, is_struct: bool, is_array: bool, kafka_type: str | None) -> Any:
    """The default where it is not the zero of its type (or null, for what can be null)."""
    if value is dataclasses.MISSING or is_struct or value == () or isinstance(value, uuid.UUID):
        return None
    if value is None:
        return "null" if is_array else -1 if kafka_type in _TIMES else None
    if isinstance(value, datetime.timedelta):
        value = round(value.total_seconds() * 1000)
    return value if value else None


def _range(versions: list[int]) -> list[int]:
    assert sorted(versions) == list(range(min(versions), max(versions) + 1)), f"gap in {versions}"
    return [min(versions), max(versions)]


def _format_api(name: str, api: dict[str, Any]) -> str:
    head = f'"{name}": {{"versions": {api["versions"]}, "flexible": {json.dumps(api["flexible"])},'
    request, response = (_format_fields(api[side], 2) for side in ("request", "response"))
    return f' {head}\n  "request": {request},\n  "response": {response}}}'


def _format_fields(fields: list[dict[str, Any]], depth: int) -> str:
    lines = []
    for field in fields:
        own = {key: value for key, value in field.items() if key != "fields"}
        line = " " * (depth + 1) + json.dumps(own)
        if "fields" in field:
            line = f'{line[:-1]}, "fields": {_format_fields(field["fields"], depth + 1)}}}'
        lines.append(line)
    return "[\n" + ",\n".join(lines) + "]" if lines else "[]"


if __name__ == "__main__":
    PATH.write_text(format_messages(extract()))
