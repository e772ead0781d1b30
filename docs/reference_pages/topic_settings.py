"""Every setting of a topic, and what we do about it."""

from docs.reference_pages.markdown import code, page, table

from millstream.model.topic_config import TOPIC_SETTINGS, TopicSetting

_INTRODUCTION = """\
These are the topic settings of Apache Kafka 4.3, with its names and defaults, and two of ours, whose names begin with
`millstream.`. Each is either honoured or refused; none is silently ignored. A refused setting can be read, and set to
its default, so that tools which copy a topic's whole configuration work; any other value is answered with
`INVALID_CONFIG` and the reason below.

Set them with any admin client, or:

```
millstream topics create orders -c retention.ms=86400000
millstream topics config set orders retention.ms=3600000
millstream topics config get orders
```"""


def topic_settings_page() -> str:
    honoured = [setting for setting in TOPIC_SETTINGS if setting.refused is None]
    refused = [setting for setting in TOPIC_SETTINGS if setting.refused is not None]
    return page(
        "Settings of a topic",
        _INTRODUCTION,
        "## Honoured",
        table(
            ("setting", "takes", "default", "default set by", "meaning"),
            ((code(s.name), _takes(s), code(s.default), code(s.broker_name or ""), s.doc) for s in honoured),
        ),
        "## Refused, unless it is the default",
        table(
            ("setting", "default", "meaning in Kafka", "why it is refused"),
            ((code(s.name), code(s.default), s.doc, (s.refused or "").capitalize() + ".") for s in refused),
        ),
    )


def _takes(setting: TopicSetting) -> str:
    if setting.choices:
        return ", ".join(code(choice) for choice in setting.choices)
    if setting.kind == "boolean":
        return "`true`, `false`"
    if setting.minimum is None:
        return setting.kind
    if setting.maximum is None:
        return f"{setting.kind}, {setting.minimum:g} or more"
    return f"{setting.kind}, {setting.minimum:g} to {setting.maximum:g}"
