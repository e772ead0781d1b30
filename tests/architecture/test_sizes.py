"""Files and functions stay small enough to read.

The limits ratchet: what is too long today is listed with its length, may only shrink, and is taken off the list
when it fits.
"""

import ast

from tests.architecture.source_tree import modules

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}


Lengths = list[tuple[str, int]]


def too_long(lengths: Lengths, limit: int) -> dict[str, int]:
    return {name: length for name, length in lengths if length > limit}


def file_lengths() -> Lengths:
    return [(module.place, module.text.count("\n")) for module in modules()]


def function_lengths() -> Lengths:
    return [
        (f"{module.place}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_file_is_too_long() -> None:
    assert too_long(file_lengths(), FILE_LINES_MAX) == LONG_FILES


def test_no_function_is_too_long() -> None:
    assert too_long(function_lengths(), FUNCTION_LINES_MAX) == LONG_FUNCTIONS
