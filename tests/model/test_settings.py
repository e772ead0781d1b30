import pytest

from millstream.model.errors import InvalidSetting
from millstream.model.settings import setting_names, settings_from, settings_from_environment


def test_a_later_layer_wins():
    settings = settings_from({"num.partitions": 2, "log.fsync": "os"}, {"num.partitions": "5"})

    assert (settings.num_partitions, settings.log_fsync) == (5, "os")


def test_every_setting_has_a_variable():
    variables = {"MILLSTREAM_" + name.upper().replace(".", "_"): "1" for name in setting_names()}

    assert sorted(settings_from_environment(variables)) == setting_names()


def test_variables_that_are_no_setting_are_left_out():
    assert settings_from_environment({"MILLSTREAM_NO_SUCH": "1", "PATH": "/bin"}) == {}


def test_retention_in_hours_is_retention_in_milliseconds():
    assert settings_from({"log.retention.hours": 2}).topic_defaults == {"log.retention.ms": "7200000"}


WRONG = [
    ("no.such.setting", "1", "is not a setting"),
    ("num.partitions", "0", "at least 1"),
    ("num.partitions", "many", "whole number"),
    ("log.fsync", "never", "one of always, interval, os"),
    ("auto.create.topics.enable", "perhaps", "true or false"),
    ("log.segment.bytes", "1", "at least"),
    ("log.retention.hours", "a few", "whole number"),
]


@pytest.mark.parametrize(("name", "value", "reason"), WRONG)
def test_a_wrong_setting_is_refused_with_its_name_its_value_and_why(name, value, reason):
    with pytest.raises(InvalidSetting, match=reason) as caught:
        settings_from({name: value})

    assert str(caught.value).startswith(f"{name}={value}: ")


def test_every_setting_is_explained():
    assert all(doc.endswith(".") for _, _, doc in settings_from().described())
