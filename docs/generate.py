"""The parts of the reference that follow from the code.

    python -m docs.generate            write them
    python -m docs.generate --check    exit code 1 if one is not what the code says

Why: a setting, a command, a request or a metric that is not written down might as well not exist, and what is
written by hand grows old.
Invariants: the same code gives the same pages on every machine.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from docs.reference_pages.cli import cli_page
from docs.reference_pages.metrics import metrics_page
from docs.reference_pages.protocol import protocol_page
from docs.reference_pages.settings import settings_page
from docs.reference_pages.topic_settings import topic_settings_page

REFERENCE = Path(__file__).parent / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "topic-settings.md": topic_settings_page,
    "cli.md": cli_page,
    "protocol.md": protocol_page,
    "metrics.md": metrics_page,
}


def stale_pages() -> list[str]:
    """Names of pages that are missing or differ from what the code says."""
    return [name for name, page in PAGES.items() if _written(name) != page()]


def _written(name: str) -> str | None:
    path = REFERENCE / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/reference.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    if parser.parse_args().check:
        stale = stale_pages()
        for name in stale:
            print(f"docs/reference/{name} is stale: run `python -m docs.generate`", file=sys.stderr)
        return 1 if stale else 0
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
