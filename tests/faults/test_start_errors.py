"""A node that can't start says why in one line, ends with an exit code that is not 0, and has changed nothing."""

import os
import socket
import subprocess

import pytest

from millstream.testing.process import NodeDidNotStart
from tests.faults.tools import needs_root


def content_of(directory):
    """Every file below, with its content and its time of change."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def refusal_of(node):
    """The exit code and the one line that a start ended with."""
    with pytest.raises(NodeDidNotStart) as refused:
        node.start()
    (line,) = refused.value.said.splitlines()
    assert refused.value.exit_code not in (0, None)
    assert "Traceback" not in line
    return line


@pytest.fixture
def left_behind(make_node, ask):
    """The data of a node that was stopped cleanly."""
    node = make_node()
    node.start()
    ask(node).raw.create_topic("orders")
    assert node.stop() == 0
    return node.data


def test_a_directory_in_use_is_refused_and_its_owner_named(make_node):
    first, second = make_node(), make_node()
    first.start()
    before = content_of(first.data)

    line = refusal_of(second)

    assert line == (
        f"millstream: {first.data} is in use by another node (process {first.node_pid}). "
        "Stop that one, or choose another --data."
    )
    assert content_of(first.data) == before


@pytest.mark.parametrize("door", ["kafka", "http"])
def test_a_port_in_use_is_refused_before_the_data_is_touched(make_node, left_behind, door):
    before = content_of(left_behind)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        line = refusal_of(make_node(ports={door: port}))

    assert line == (
        f"millstream: {door} port 127.0.0.1:{port}: Address already in use. Stop what uses it, or choose "
        f"another with --{door}-port (0 picks a free one)."
    )
    assert content_of(left_behind) == before


def test_a_second_node_on_the_same_ports_leaves_the_first_alone(make_node, tmp_path):
    first = make_node()
    first.start()

    line = refusal_of(make_node(data=tmp_path / "other", ports=first.ports))

    assert "Address already in use" in line
    assert not (tmp_path / "other").exists()
    assert first.stop() == 0


@needs_root
def test_a_read_only_disk_is_refused(make_node, left_behind, tmp_path):
    place = tmp_path / "read-only"
    place.mkdir()
    subprocess.run(["mount", "--bind", str(left_behind), str(place)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
        before = content_of(left_behind)

        line = refusal_of(make_node(data=place))

        assert line == (
            f"millstream: {place}: Read-only file system. Check that it is a directory you may write to, "
            "with space left"
        )
        assert content_of(left_behind) == before
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root may write anywhere; the read-only disk above stands for it"
)
def test_a_directory_without_permission_is_refused(make_node, tmp_path):
    (tmp_path / "data").mkdir(mode=0o500)

    assert "Permission denied" in refusal_of(make_node())


def test_a_file_in_the_directory_s_place_is_refused(make_node, tmp_path):
    (tmp_path / "data").write_text("mine")

    assert "Check that it is a directory you may write to" in refusal_of(make_node())
    assert (tmp_path / "data").read_text() == "mine"


def test_a_setting_that_can_t_be_taken_is_refused_before_the_data_is_touched(make_node, left_behind):
    before = content_of(left_behind)

    line = refusal_of(make_node({"log.fsync": "sometimes"}))

    assert "log.fsync=sometimes: must be one of always, interval, os" in line
    assert content_of(left_behind) == before


def test_after_a_refusal_the_node_starts_once_the_reason_is_gone(make_node):
    first, second = make_node(), make_node()
    first.start()
    refusal_of(second)
    first.stop()

    second.start()

    assert second.stop() == 0
