"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Why: a topic's settings change while it runs. The node's own are given at start (flags, variables, file) and are
shown here but not changed.
Invariants: a setting is honoured or refused, never silently ignored; a request is checked before it is written.
"""

from collections.abc import Callable, Mapping
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.broker.catalog import Topic
from millstream.broker.config_view import described_broker_configs, described_topic_configs
from millstream.broker.topic_admin import RefusedTopic, refusal
from millstream.model.errors import InvalidSetting, MillstreamError
from millstream.model.topic_config import TOPIC_SETTINGS_BY_NAME, check_topic_overrides
from millstream.wire.errors import ErrorCode

Response = dict[str, Any]

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def handle_describe_configs(broker: Broker, call: Call, request: Any) -> Response:
    results = []
    for resource in request.resources:
        code: int
        message: str | None
        entries: list[dict[str, Any]] = []
        try:
            entries = _describe(broker, resource)
            code, message = 0, None
        except MillstreamError as error:
            code, message = refusal(error)
        for entry in entries:
            if not request.include_synonyms:
                entry["synonyms"] = []
            if not getattr(request, "include_documentation", False):
                entry["documentation"] = None
        results.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
                "configs": entries,
            }
        )
    return {"results": results}


def _describe(broker: Broker, resource: Any) -> list[dict[str, Any]]:
    if resource.resource_type == TOPIC:
        entries = described_topic_configs(broker, _topic(broker, resource.resource_name).overrides)
    elif resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(broker.settings.node_id)):
            raise RefusedTopic(
                ErrorCode.INVALID_REQUEST,
                f"broker {resource.resource_name}: the only broker is {broker.settings.node_id}",
            )
        # The empty name asks for defaults that were set for all brokers while they ran; there are none.
        entries = described_broker_configs(broker) if resource.resource_name else []
    elif resource.resource_type in (BROKER_LOGGER, CLIENT_METRICS, GROUP):
        entries = []
    else:
        raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} is unknown")
    keys = resource.configuration_keys
    if keys is None:
        return entries
    return [entry for entry in entries if entry["name"] in keys]


def _topic(broker: Broker, name: str) -> Topic:
    topic = broker.catalog.find(name)
    if topic is None:
        raise RefusedTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    return topic


async def handle_alter_configs(broker: Broker, call: Call, request: Any) -> Response:
    """The old form: what is not named goes back to its default."""

    def replaced(topic: Topic, resource: Any) -> dict[str, str]:
        return {config.name: _value(config) for config in resource.configs}

    return await _alter(broker, request, replaced)


async def handle_incremental_alter_configs(broker: Broker, call: Call, request: Any) -> Response:
    return await _alter(broker, request, _incremented)


async def _alter(broker: Broker, request: Any, change: Callable[[Topic, Any], Mapping[str, str]]) -> Response:
    responses = []
    named = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    for resource in request.resources:
        code: int
        message: str | None
        try:
            if named.count((resource.resource_type, resource.resource_name)) > 1:
                raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"{resource.resource_name!r} is named twice")
            if resource.resource_type != TOPIC:
                raise RefusedTopic(
                    ErrorCode.INVALID_REQUEST,
                    "the node's own settings are given at start: --set, MILLSTREAM_* or millstream.toml",
                )
            topic = _topic(broker, resource.resource_name)
            overrides = change(topic, resource)
            check_topic_overrides(overrides)
            if not request.validate_only:
                await broker.catalog.configure(topic, overrides)
            code, message = 0, None
        except MillstreamError as error:
            code, message = refusal(error)
        responses.append(
            {
                "error_code": code,
                "error_message": message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
        )
    return {"responses": responses}


def _incremented(topic: Topic, resource: Any) -> dict[str, str]:
    overrides = dict(topic.overrides)
    names = [config.name for config in resource.configs]
    for config in resource.configs:
        if names.count(config.name) > 1:
            raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"{config.name} is named twice")
        if config.name not in TOPIC_SETTINGS_BY_NAME:
            raise InvalidSetting(config.name, config.value, "is not a topic setting")
        if config.config_operation == SET:
            overrides[config.name] = _value(config)
        elif config.config_operation == DELETE:
            overrides.pop(config.name, None)
        elif config.config_operation in (APPEND, SUBTRACT):
            overrides[config.name] = _edited_list(overrides, config)
        else:
            raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"operation {config.config_operation} is unknown")
    return overrides


def _edited_list(overrides: Mapping[str, str], config: Any) -> str:
    setting = TOPIC_SETTINGS_BY_NAME[config.name]
    if setting.kind != "list":
        raise InvalidSetting(config.name, config.value, "is not a list: append and subtract need one")
    present = [part for part in overrides.get(config.name, setting.default).split(",") if part]
    parts = [part.strip() for part in _value(config).split(",") if part.strip()]
    if config.config_operation == APPEND:
        return ",".join([*present, *(part for part in parts if part not in present)])
    return ",".join(part for part in present if part not in parts)


def _value(config: Any) -> str:
    if config.value is None:
        raise RefusedTopic(ErrorCode.INVALID_REQUEST, f"{config.name}: a value is missing")
    return str(config.value)


def handle_list_config_resources(broker: Broker, call: Call, request: Any) -> Response:
    wanted = getattr(request, "resource_types", None)
    if call.version == 0:
        wanted = [CLIENT_METRICS]
    resources = []
    if not wanted or TOPIC in wanted:
        resources += [{"resource_name": name, "resource_type": TOPIC} for name in broker.catalog.by_name]
    for kind in (BROKER, BROKER_LOGGER):
        if not wanted or kind in wanted:
            resources.append({"resource_name": str(broker.settings.node_id), "resource_type": kind})
    return {"error_code": 0, "config_resources": resources}
