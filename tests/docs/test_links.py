"""A link leads somewhere, and a file that is spoken of exists."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, place, prose

# Written by `make bench`, which needs Apache Kafka.
LATER = {"docs/benchmarks.md"}
_MENTIONED = re.compile(r"`((?:examples|tests|docs|src|codec|log|wire|broker|server)/[\w./-]*)`")


def is_broken(page: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if target.is_relative_to(ROOT) and str(target.relative_to(ROOT)) in LATER:
        return False
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


def exists(mentioned: str) -> bool:
    return (ROOT / mentioned).exists() or (ROOT / "src" / "millstream" / mentioned).exists()


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if is_broken(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_every_file_that_is_mentioned_exists(page: Path) -> None:
    assert [name for name in _MENTIONED.findall(prose(page)) if not exists(name)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = (
            (page.parent / link.partition("#")[0]).resolve() for link in links(page) if ":" not in link
        )
        waiting += [target for target in targets if target in PAGES and target not in reached]

    assert [place(page) for page in PAGES if page not in reached] == []


def test_a_broken_link_would_be_found() -> None:
    readme = ROOT / "README.md"

    assert is_broken(readme, "docs/nowhere.md")
    assert is_broken(readme, "#no-such-heading")
    assert not is_broken(readme, "#limits")
