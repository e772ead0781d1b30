"""What the code offers is written down."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires

import typer
from docs.generate import PAGES, REFERENCE, stale_pages

from millstream.cli import exits
from millstream.cli.root import COMMANDS, app
from millstream.model.settings import Settings, setting_names
from millstream.model.topic_config import TOPIC_SETTINGS
from millstream.wire.apis import SERVED
from tests.docs.pages import ROOT


def read(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_the_generated_pages_say_what_the_code_says() -> None:
    assert stale_pages() == [], "run `python -m docs.generate`"


def test_generating_twice_gives_the_same() -> None:
    assert [page() for page in PAGES.values()] == [page() for page in PAGES.values()]


def test_every_setting_is_documented() -> None:
    page = read("settings.md")

    assert [name for name in setting_names() if f"`{name}`" not in page and not is_refused(name)] == []
    assert [name for name, _, doc in Settings().described() if doc not in page] == []


def is_refused(name: str) -> bool:
    """Whether it is the default of a topic setting that takes no other value."""
    return any(setting.broker_name == name and setting.refused is not None for setting in TOPIC_SETTINGS)


def test_every_topic_setting_is_documented() -> None:
    page = read("topic-settings.md")

    assert [setting.name for setting in TOPIC_SETTINGS if f"| `{setting.name}` |" not in page] == []


def command_paths() -> Iterator[str]:
    root = typer.main.get_command(app)
    for name in COMMANDS:
        yield from _paths(f"millstream {name}", root.get_command(None, name))  # type: ignore[attr-defined]


def _paths(path: str, command: object) -> Iterator[str]:
    yield path
    for name, inner in (getattr(command, "commands", None) or {}).items():
        yield from _paths(f"{path} {name}", inner)


def test_every_command_is_documented() -> None:
    headings = set(re.findall(r"^#+ (.+)$", read("cli.md"), re.MULTILINE))

    assert [path for path in command_paths() if path not in headings] == []


def test_every_request_that_is_served_is_documented() -> None:
    page = read("protocol.md")

    assert [api.name for api in SERVED if f"| {int(api)} | " not in page] == []


def test_every_exit_code_is_documented() -> None:
    page = read("exit-codes.md")
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == codes


def test_every_dependency_is_documented_with_its_version() -> None:
    page = read("dependencies.md")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        pins += extra
    pairs = [pin.partition(";")[0].strip().split("==") for pin in pins]

    assert [name for name, version in pairs if f"| {name} | {version} |" not in page] == []


def test_the_installed_package_asks_for_what_is_documented() -> None:
    page = read("dependencies.md")
    names = {re.split(r"[\s=<>;\[]", requirement)[0] for requirement in requires("millstream") or []}

    assert [name for name in names if f"| {name} |" not in page] == []
