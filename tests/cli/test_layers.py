import sys
from pathlib import Path

import pytest

from millstream.cli.layers import default_data_directory, flattened, node_options, unknown_variables
from millstream.model.errors import BadRequest, InvalidSetting


def test_the_nearest_to_the_person_wins(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('num.partitions = 2\nlog.fsync = "os"\nkafka.port = 1\ndata = "/from/file"\n')
    environment = {"MILLSTREAM_NUM_PARTITIONS": "3", "MILLSTREAM_KAFKA_PORT": "2"}

    options = node_options({"num.partitions": "4"}, file=file, environment=environment)

    assert options.settings.num_partitions == 4
    assert options.settings.log_fsync == "os"
    assert options.kafka_port == 2
    assert options.data == Path("/from/file")
    assert options.settings.delete_topic_enable is True


def test_without_anything_the_ports_are_the_usual_ones(tmp_path: Path) -> None:
    options = node_options({}, file=None, environment={})

    assert (options.kafka_port, options.amqp_port, options.http_port) == (9092, 5672, 8642)


def test_a_file_in_this_directory_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "millstream.toml").write_text("[num]\npartitions = 7\n")

    assert node_options({}, file=None, environment={}).settings.num_partitions == 7


def test_tables_lists_and_quoted_names_all_say_the_same() -> None:
    nested = {"log": {"cleanup": {"policy": ["compact", "delete"]}}, "log.fsync.interval.ms": 5, "x": True}

    assert flattened(nested) == {
        "log.cleanup.policy": "compact,delete",
        "log.fsync.interval.ms": 5,
        "x": True,
    }


def test_a_mistyped_setting_is_answered_with_the_right_one() -> None:
    with pytest.raises(InvalidSetting, match=r"did you mean num\.partitions\?"):
        node_options({"num.partition": "3"}, file=None, environment={})


def test_a_wrong_value_keeps_its_own_reason() -> None:
    with pytest.raises(InvalidSetting, match="at least 1"):
        node_options({"num.partitions": "0"}, file=None, environment={})


@pytest.mark.parametrize("port", ["x", "-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(InvalidSetting, match=r"kafka\.port"):
        node_options({"kafka.port": port}, file=None, environment={})


def test_a_file_that_is_not_toml_is_told_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("num.partitions: 3\n")

    with pytest.raises(BadRequest, match=r"bad\.toml is not TOML .*line 1"):
        node_options({}, file=file, environment={})


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere\.toml can't be read"):
        node_options({}, file=tmp_path / "nowhere.toml", environment={})


def test_a_variable_that_means_nothing_is_mentioned() -> None:
    environment = {
        "MILLSTREAM_LOG_FSYCN": "os",
        "MILLSTREAM_DEBUG": "1",
        "MILLSTREAM_LOG_FSYNC": "os",
        "HOME": "/",
    }

    (sentence,) = unknown_variables(environment)

    assert sentence.endswith("did you mean MILLSTREAM_LOG_FSYNC?")


@pytest.mark.skipif(sys.platform != "linux", reason="the place differs by platform")
def test_data_goes_to_the_platforms_place() -> None:
    assert default_data_directory({"XDG_DATA_HOME": "/x"}) == Path("/x/millstream")
    assert default_data_directory({}) == Path.home() / ".local/share/millstream"
