"""No test has a bound that a busy machine may reach: on a real clock a bound says "never", and is
long. What takes how long is for bench/; what a limit does is shown on a virtual clock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LEAST_SECONDS = 30
# Tests that ask for one of these decide themselves what time it is.
CLOCKS = {"autojump_clock", "virtual_clock"}
BOUNDS = {"within", "timeout"}
# A client of somebody else's, whose short patience is the story.
PATIENCE = {"with_options"}
NOT_OURS = {"node_modules", "typing"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def short_bounds(tree: ast.AST) -> Iterator[int]:
    """Lines with a bound of less than `LEAST_SECONDS`, outside functions that have a clock."""
    if isinstance(tree, Function) and CLOCKS & {argument.arg for argument in tree.args.args}:
        return
    if isinstance(tree, ast.Call):
        name = getattr(tree.func, "attr", getattr(tree.func, "id", ""))
        given = [word.value for word in tree.keywords if word.arg in BOUNDS]
        given += tree.args[:1] if name == "fail_after" else []
        if name not in PATIENCE and any(_is_short(value) for value in given):
            yield tree.lineno
    for child in ast.iter_child_nodes(tree):
        yield from short_bounds(child)


def _is_short(value: ast.expr) -> bool:
    number = value.value if isinstance(value, ast.Constant) else None
    return isinstance(number, int | float) and number < LEAST_SECONDS


def test_bounds_on_a_real_clock_are_long() -> None:
    found = [
        f"{file.relative_to(TESTS)}:{line}"
        for file in sorted(TESTS.rglob("*.py"))
        if not NOT_OURS & set(file.parts)
        for line in short_bounds(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("with trio.fail_after(5): pass", [1]),
        ("def test_x(virtual_clock):\n with trio.fail_after(5): pass", []),
        ("def test_x():\n process.wait(timeout=5)", [2]),
        ("trio.fail_after(60)\nsite.until(holds, within=LONG)", []),
    ],
)
def test_the_rule_sees_what_it_should(code: str, lines: list[int]) -> None:
    assert list(short_bounds(ast.parse(code))) == lines
