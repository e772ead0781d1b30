"""Settings as DescribeConfigs shows them.

Invariants: every setting is listed, with where its value comes from; an explicit value on the topic comes first
among the synonyms, then the node's, then the default.
"""

from collections.abc import Mapping
from typing import Any

from millstream.broker.broker import Broker
from millstream.model.settings import Settings, setting_name
from millstream.model.topic_config import TOPIC_SETTINGS, TopicSetting

Entry = dict[str, Any]

TOPIC_SOURCE = 1
STATIC_SOURCE = 4
DEFAULT_SOURCE = 5

_TYPES = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}


def described_topic_configs(broker: Broker, overrides: Mapping[str, str]) -> list[Entry]:
    return [_topic_entry(broker.settings, setting, overrides) for setting in TOPIC_SETTINGS]


def _topic_entry(settings: Settings, setting: TopicSetting, overrides: Mapping[str, str]) -> Entry:
    synonyms = []
    if setting.name in overrides:
        synonyms.append({"name": setting.name, "value": overrides[setting.name], "source": TOPIC_SOURCE})
    broker_value = settings.topic_defaults.get(setting.broker_name or "")
    if broker_value is not None:
        synonyms.append({"name": setting.broker_name, "value": broker_value, "source": STATIC_SOURCE})
    if setting.broker_name is not None:
        synonyms.append({"name": setting.broker_name, "value": setting.default, "source": DEFAULT_SOURCE})
    first = synonyms[0] if synonyms else {"value": setting.default, "source": DEFAULT_SOURCE}
    return {
        "name": setting.name,
        "value": first["value"],
        "read_only": False,
        "config_source": first["source"],
        "is_sensitive": False,
        "synonyms": synonyms,
        "config_type": _TYPES[setting.kind],
        "documentation": setting.doc,
    }


def described_broker_configs(broker: Broker) -> list[Entry]:
    defaults = Settings()
    entries = [
        _broker_entry(name, value, getattr(defaults, name.replace(".", "_")), doc)
        for name, value, doc in broker.settings.described()
    ]
    for setting in TOPIC_SETTINGS:
        if setting.broker_name is not None:
            value = broker.settings.topic_defaults.get(setting.broker_name, setting.default)
            entries.append(_broker_entry(setting.broker_name, value, setting.default, setting.doc))
    return entries


def _broker_entry(name: str, value: object, default: object, doc: str) -> Entry:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    kind = {bool: 1, int: 5}.get(type(default), 2)
    source = DEFAULT_SOURCE if value == default else STATIC_SOURCE
    return {
        "name": setting_name(name),
        "value": text,
        "read_only": True,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": name, "value": text, "source": source}],
        "config_type": kind,
        "documentation": doc,
    }
