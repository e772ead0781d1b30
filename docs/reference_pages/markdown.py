"""Small pieces of Markdown."""

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `python -m docs.generate` from the code. Change the code, not this page. -->"


def page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", NOTICE, *(part.strip("\n") for part in parts))) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(header), _row(["---"] * len(header)), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(text: object) -> str:
    """In code font; nothing for nothing."""
    shown = str(text).lower() if isinstance(text, bool) else str(text)
    return f"`{shown}`" if shown else ""
