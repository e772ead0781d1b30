"""The modules of the package as syntax trees, for tests over the source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "millstream"


@dataclass(frozen=True)
class Module:
    path: Path
    tree: ast.Module
    text: str

    @property
    def name(self) -> str:
        """As imported: `millstream.wire.schema`; a package by its own name."""
        parts = self.path.relative_to(ROOT.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        """The room it is in, or "" for the package itself."""
        parts = self.path.relative_to(ROOT).parts
        return parts[0] if len(parts) > 1 else ""

    @property
    def place(self) -> str:
        return str(self.path.relative_to(ROOT))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        found.append(Module(path, ast.parse(text, str(path)), text))
    return tuple(found)


def imports(module: Module, tree: ast.AST) -> Iterator[str]:
    """Names of modules of ours that are imported anywhere in `tree`, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            if is_ours(base):
                yield from (f"{base}.{alias.name}" for alias in node.names)


def is_ours(name: str) -> bool:
    return name == "millstream" or name.startswith("millstream.")


def imports_on_load(module: Module) -> Iterator[str]:
    """Those of `imports` that happen when the module is loaded: not in functions, not for mypy alone."""
    for statement in module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from imports(module, statement)


def _base(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    is_package = module.path.name == "__init__.py"
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, node.module] if node.module else kept)
