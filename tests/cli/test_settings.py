import json
from pathlib import Path

from millstream.model.settings import setting_names
from tests.cli.conftest import Run


def test_every_setting_is_listed_with_its_meaning(offline: Run) -> None:
    rows = json.loads(offline("settings", "-o", "json").stdout)

    listed = {row["name"] for row in rows}
    units = {"log.retention.minutes", "log.retention.hours"}  # other names of log.retention.ms
    refused = {"log.preallocate", "unclean.leader.election.enable"}  # taken at their default only
    assert set(setting_names()) - listed == units | refused
    assert {"data", "kafka.port", "amqp.port", "http.port"} <= listed
    assert all(row["meaning"] for row in rows)


def test_the_value_is_the_one_in_force_here(offline: Run, tmp_path: Path) -> None:
    (tmp_path / "millstream.toml").write_text("num.partitions = 5\n")

    rows = json.loads(offline("settings", "-o", "json", env={"MILLSTREAM_LOG_RETENTION_HOURS": "1"}).stdout)

    shown = {row["name"]: (row["value"], row["default"]) for row in rows}
    assert shown["num.partitions"] == ("5", "1")
    assert shown["log.retention.ms"] == ("3600000", "604800000")
    assert shown["auto.create.topics.enable"] == ("true", "true")


def test_a_part_of_a_name_narrows_it(offline: Run) -> None:
    rows = json.loads(offline("settings", "fsync", "-o", "json").stdout)

    assert [row["name"] for row in rows] == ["log.fsync", "log.fsync.interval.ms"]
    assert rows[0]["variable"] == "MILLSTREAM_LOG_FSYNC"
