"""Every example runs as a reader would run it, and prints what it promises to show."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 240


def output_of(name: str, *arguments: str, runner: tuple[str, ...] = ()) -> str:
    found = subprocess.run(
        [sys.executable, *runner, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_a_first_topic_gives_back_what_it_was_given() -> None:
    assert "read back: good morning millstream" in output_of("01_first_topic.py")


def test_a_group_shares_the_work_and_takes_over_from_a_member_that_leaves() -> None:
    printed = output_of("02_consumer_group.py")

    assert "200 different orders of 200" in printed
    assert "anna alone got 200, none of them twice: True" in printed


def test_a_replay_starts_at_the_beginning_an_offset_or_a_time() -> None:
    printed = output_of("03_replay.py")

    assert "24 records, the same: True" in printed
    assert "from offset 20: hour 20, hour 21, hour 22, hour 23" in printed
    assert "from noon: offset 12, hour 12 to hour 23" in printed


def test_a_compacted_topic_is_a_table() -> None:
    assert "the table: {'bread': '200', 'flour': '199'}" in output_of("04_compacted_table.py")


def test_a_node_serves_a_users_own_tests() -> None:
    printed = output_of("05_node_in_a_test.py", runner=("-m", "pytest", "-p", "no:cacheprovider"))

    assert "2 passed" in printed


def test_a_slow_consumer_harms_only_itself_and_a_late_one_is_told_what_it_missed() -> None:
    printed = output_of("06_slow_consumer.py")

    assert "fast: 0 records behind; slow: 20000 records behind" in printed
    assert "it comes back and is told: " in printed
    assert re.search(r"it has missed [1-9]\d* records", printed)
    assert re.search(r"offsets \d+ to \d+, all of \[\d+, \d+\): True", printed)


def test_an_idle_consumer_that_waits_makes_far_fewer_requests_than_one_that_polls() -> None:
    printed = output_of("07_idle_consumer.py")

    polling, waiting = (int(count) for count in re.findall(r"(\d+) fetch requests", printed))
    assert waiting <= 2
    assert polling > 5 * waiting


def test_an_example_uses_a_broker_that_is_there() -> None:
    from millstream.testing import running_node

    with running_node() as node:
        printed = output_of("01_first_topic.py", "--bootstrap", node.bootstrap_servers)

    assert "read back: good morning millstream" in printed
