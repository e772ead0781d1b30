"""Imports point down only, as the rooms and floors of the architecture say."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source_tree import ROOT, Module, imports, imports_on_load, modules

# What each room may see besides itself, from the ground up. Rooms on one floor do not see each other unless
# it is written here; the work rooms reach the log only through `client`, by the Kafka protocol.
_GROUND = {"model", "codec"}
_ENGINE = _GROUND | {"log", "wire"}
_WORK = {"pipelines", "capture", "sourcing", "views", "direct"}
MAY_SEE: dict[str, set[str]] = {
    "model": set(),
    "codec": {"model"},
    "log": _GROUND,
    "wire": _GROUND,
    "coordination": _GROUND | {"wire"},  # it decides; what it decides is appended by others
    "queues": _ENGINE,
    "broker": _ENGINE | {"coordination", "queues"},
    "server": _ENGINE | {"coordination", "queues", "broker"},
    "client": _GROUND | {"wire"},
    "pipelines": {"model", "client", "codec"},
    "capture": {"model", "client"},
    "sourcing": {"model", "client"},
    "views": {"model", "client"},
    "direct": {"model", "client"},
    # The HTTP door is a part that `node` starts; it knows the node only by a protocol of its own.
    "console": {"model", "client"},
    "node": _ENGINE | _WORK | {"coordination", "queues", "broker", "server", "client", "console"},
    "cli": _ENGINE | _WORK | {"coordination", "queues", "broker", "server", "client", "console", "node"},
}
MAY_SEE["testing"] = set(MAY_SEE)  # beside the house: what we ship for users' tests


def room_of(name: str) -> str:
    """The room of an imported name; "" for the package itself, which holds the version."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in MAY_SEE else ""


def forbidden_imports(module: Module) -> list[str]:
    allowed = MAY_SEE.get(module.room, set()) | {module.room, ""}
    return sorted({name for name in imports(module, module.tree) if room_of(name) not in allowed})


def test_every_room_has_its_place() -> None:
    assert {module.room for module in modules()} - {""} <= set(MAY_SEE)


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.place)
def test_imports_point_down_only(module: Module) -> None:
    assert forbidden_imports(module) == []


def test_a_wrong_import_is_found_wherever_it_hides() -> None:
    lines = [
        "from millstream.log.partition import PartitionLog",
        "from millstream import broker, __version__",
        "from . import schema",
        "def later(): from ..node.node import Node",
    ]
    module = Module(ROOT / "wire" / "made_up.py", ast.parse("\n".join(lines)), "")

    found = forbidden_imports(module)

    assert [room_of(name) for name in found] == ["broker", "log", "node"]


def test_the_floors_have_no_way_back_up() -> None:
    seen: set[str] = set()

    # Each room in the table may see only rooms above its line, which makes a cycle impossible.
    for room, below in MAY_SEE.items():
        if room != "testing":
            assert below <= seen, f"{room} sees {sorted(below - seen)}, which come after it"
        seen.add(room)


def test_no_module_imports_itself_by_a_detour() -> None:
    assert list(cycles()) == []


def cycles() -> Iterator[list[str]]:
    """Paths of imports that return to where they began."""
    known = {module.name for module in modules()}
    graph = {
        module.name: sorted({found for name in imports_on_load(module) if (found := target(name, known))})
        for module in modules()
    }
    finished: set[str] = set()
    for start in graph:
        yield from _cycles_from(start, graph, [], finished)


def _cycles_from(
    name: str, graph: dict[str, list[str]], path: list[str], finished: set[str]
) -> Iterator[list[str]]:
    if name in path:
        yield [*path[path.index(name) :], name]
        return
    if name in finished:
        return
    for target_name in graph.get(name, []):
        yield from _cycles_from(target_name, graph, [*path, name], finished)
    finished.add(name)


def target(name: str, known: set[str]) -> str:
    """The module that an import loads: the name itself, or what the name is taken from."""
    return name if name in known else name.rpartition(".")[0]
