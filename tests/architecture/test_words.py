"""What the source may not say, and what it must."""

import ast
import re

from tests.architecture.source_tree import Module, modules

# Names that say nothing about what the thing does.
_EMPTY_WORDS = re.compile(r"(Manager|Helpers?|Util(s|ities)?|Impl)([A-Z_]|$)")
_EMPTY_FILES = re.compile(r"(^|_)(managers?|helpers?|utils?|utilities|impl|misc|common)(_|$)")


def defined_names(module: Module) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in ast.walk(module.tree) if isinstance(node, kinds)]


def calls_print(module: Module) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for node in ast.walk(module.tree)
    )


def test_only_the_command_line_prints() -> None:
    assert [module.place for module in modules() if module.room != "cli" and calls_print(module)] == []


def test_every_module_opens_with_why_it_exists() -> None:
    silent = [module.place for module in modules() if module.tree.body and not ast.get_docstring(module.tree)]

    assert silent == []


def test_no_name_hides_what_it_stands_for() -> None:
    empty = [
        f"{module.place}: {name}"
        for module in modules()
        for name in defined_names(module)
        if _EMPTY_WORDS.search(name)
    ]

    assert empty == []


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    assert [module.place for module in modules() if _EMPTY_FILES.search(module.path.stem)] == []
