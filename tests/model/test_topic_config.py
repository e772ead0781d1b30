import pytest

from millstream.model.errors import InvalidSetting
from millstream.model.topic_config import TOPIC_SETTINGS, check_topic_overrides, topic_config


@pytest.mark.parametrize("setting", TOPIC_SETTINGS, ids=lambda setting: setting.name)
def test_the_default_of_every_setting_can_be_set(setting):
    check_topic_overrides({setting.name: setting.default})

    assert setting.doc


REFUSED = {
    "follower.replication.throttled.replicas": "0:1",
    "leader.replication.throttled.replicas": "0:1",
    "local.retention.bytes": "1000",
    "local.retention.ms": "1000",
    "preallocate": "true",
    "remote.log.copy.disable": "true",
    "remote.log.delete.on.disable": "true",
    "remote.storage.enable": "true",
    "unclean.leader.election.enable": "true",
}


@pytest.mark.parametrize(("name", "value"), REFUSED.items())
def test_what_is_not_offered_is_refused_with_a_reason_and_never_ignored(name, value):
    with pytest.raises(InvalidSetting, match=rf"{name}=.+: .{{20,}}"):
        check_topic_overrides({name: value})


def test_every_setting_is_either_honoured_or_refused():
    refused = {setting.name for setting in TOPIC_SETTINGS if setting.refused is not None}
    honoured = {setting.name for setting in TOPIC_SETTINGS} - refused

    assert refused == set(REFUSED)
    assert honoured == {name.replace("_", ".") for name in topic_config().__dataclass_fields__}


WRONG = [
    ("no.such.setting", "1"),
    ("retention.ms", "soon"),
    ("retention.ms", "-2"),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", "compact,shred"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("message.timestamp.type", "Sometime"),
    ("millstream.archive.enable", "yes"),
    ("compression.gzip.level", "0"),
    ("segment.bytes", "10"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_refused_and_named(name, value):
    with pytest.raises(InvalidSetting) as caught:
        check_topic_overrides({name: value})

    assert str(caught.value).startswith(f"{name}={value}: ")


def test_an_override_wins_over_the_node_and_the_node_over_the_default():
    node = {"log.retention.ms": "2000", "log.segment.bytes": "4096"}

    config = topic_config({"retention.ms": "1000"}, node)

    assert (config.retention_ms, config.segment_bytes, config.index_interval_bytes) == (1000, 4096, 4096)


def test_a_compacted_topic_has_no_archive_to_bring_deleted_keys_back():
    with pytest.raises(InvalidSetting, match="would come back"):
        check_topic_overrides({"cleanup.policy": "compact,delete", "millstream.archive.enable": "true"})
