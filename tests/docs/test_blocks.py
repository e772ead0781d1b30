"""Code that a reader may copy runs.

Python blocks of a page run one after the other in one namespace, against a node whose address takes the place of
127.0.0.1:9092. Commands (`$ millstream ...`) run in a shell that knows the node. Tests inside blocks are handed to
pytest.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.testing import RunningNode
from tests.docs.pages import PAGES, ROOT, blocks, place

TIMEOUT_S = 60
ADDRESS = "127.0.0.1:9092"
STAYS = re.compile(r"millstream (up|doctor)|python examples/| -f( |$)|make ")
"""Commands that don't end by themselves, depend on the machine, or are run by another test."""


def code_of(page: Path) -> str:
    return "\n\n".join(block.text for block in blocks(page) if block.language == "python")


def commands_of(page: Path) -> list[str]:
    lines = [
        line for block in blocks(page) if block.language == "console" for line in block.text.splitlines()
    ]
    return [line[2:] for line in lines if line.startswith("$ ") and not STAYS.search(line)]


def pages_with(found: dict[Path, bool]) -> list[Path]:
    return [page for page, is_there in found.items() if is_there]


WITH_CODE = pages_with({page: bool(code_of(page)) for page in PAGES})
WITH_COMMANDS = pages_with({page: bool(commands_of(page)) for page in PAGES})


def run_commands(page: Path, bootstrap: str) -> None:
    environment = {
        **os.environ,
        "MILLSTREAM_BOOTSTRAP": bootstrap,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for command in commands_of(page):
        if command.partition(" ")[0] == "kcat" and shutil.which("kcat") is None:
            continue
        done = subprocess.run(
            ["bash", "-c", command.replace(ADDRESS, bootstrap)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def run_code(page: Path, bootstrap: str, directory: Path) -> None:
    file = directory / "test_blocks_of_a_page.py"
    file.write_text(code_of(page).replace(ADDRESS, bootstrap), encoding="utf-8")
    is_test = re.search(r"^def test_", file.read_text(encoding="utf-8"), re.MULTILINE)
    runner = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_test else []
    done = subprocess.run(
        [sys.executable, *runner, str(file)],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", WITH_CODE, ids=place)
def test_python_of_a_page_runs(page: Path, millstream_node: RunningNode, tmp_path: Path) -> None:
    run_code(page, millstream_node.bootstrap_servers, tmp_path)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=place)
def test_commands_of_a_page_succeed(page: Path, millstream_node: RunningNode, tmp_path: Path) -> None:
    prepare(millstream_node.bootstrap_servers)

    run_commands(page, millstream_node.bootstrap_servers)


def prepare(bootstrap: str) -> None:
    """A topic and a group, which the pages' own Python blocks would have left behind."""
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for topic in ("clicks", "billed"):
        producer.produce(topic, key="customer-7", value="{}")
    producer.flush()
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["billed"])
    while not consumer.consume(1, timeout=1.0):
        pass
    consumer.commit(asynchronous=False)
    consumer.close()
