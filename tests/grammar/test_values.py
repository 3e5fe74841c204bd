"""Regular expressions, choices and clients' own grammars."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.grammar.answer import answer_form
from headrace.actors.grammar.lark import slashed
from headrace.actors.grammar.value import (
    CHOICES,
    LARK_CHARACTERS,
    LARK_LINES,
    PATTERN_CHARACTERS,
)
from headrace.runtime.constraints import Constraint, ConstraintKind
from headrace.runtime.errors import Code, RequestError

Held: TypeAlias = Any
Compiled: TypeAlias = Callable[..., Any]


@pytest.fixture
def compiled(held: Held) -> Compiled:
    def compile_(kind: ConstraintKind, value: Any = None, **more: Any) -> Any:
        constraint = Constraint(kind, value, param="the field", **more)
        form = answer_form(constraint, None, None, "after", held.compiler.special)
        assert form is not None
        return held.compiler.compile(form.grammar)

    return compile_


FAMILY = "ďábel 👩‍👩‍👧 日本"


def test_a_choice_of_whole_characters_only_g5(held: Held, compiled: Compiled) -> None:
    matcher = compiled("choice", (FAMILY, "ďábel", "日"))
    for seed in range(20):
        said = held.walk(matcher, random.Random(seed))
        assert said in (FAMILY, "ďábel", "日")
    assert {held.walk(matcher, random.Random(seed)) for seed in range(40)} >= {FAMILY, "日"}


@pytest.mark.parametrize(
    "choices",
    [("yes", "no"), ("a", "ab", "abc"), ("", "x"), ('"', "\\", "\n", "/"), ("<|im_end|>", "\x7f")],
)
def test_each_choice_can_be_made_and_nothing_else(
    held: Held, compiled: Compiled, choices: tuple[str, ...]
) -> None:
    matcher = compiled("choice", choices)
    assert all(held.accepts(matcher, choice) for choice in choices)
    assert not held.accepts(matcher, choices[0] + "z")
    for seed in range(10):
        assert held.walk(matcher, random.Random(seed)) in choices


PATTERNS = [
    r"\d{3}-[a-f]+",
    r"(yes|no)( please)?",
    r"a/b\/c",
    "tab\there\nand there",
    r"[^\n]{0,5}",
    r"\"q\" \\ ünï [日本]+",
    "",
    r"^anchored$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_row_says_matches_its_expression_from_end_to_end(
    held: Held, compiled: Compiled, pattern: str
) -> None:
    matcher = compiled("regex", pattern)
    said = {held.walk(matcher, random.Random(seed), hasty_after=10) for seed in range(12)}
    assert said - {None}
    assert all(re.fullmatch(pattern, text) for text in said if text is not None)


@given(st.text(max_size=12))
def test_any_text_as_an_expression_of_itself(held: Held, text: str) -> None:
    escaped = re.escape(text)
    assert held.accepts(held.lark(f"start: T\nT: {slashed(escaped)}\n"), text)


def test_a_lark_grammar_of_the_clients_own(held: Held, compiled: Compiled) -> None:
    lark = 'start: sum\nsum: NUMBER ("+" NUMBER)*\nNUMBER: /[1-9][0-9]{0,2}/\n'
    matcher = compiled("lark", lark)
    assert held.accepts(matcher, "1+22+333")
    assert not held.accepts(matcher, "1+")
    assert not held.accepts(matcher, "0")


def test_any_json_object(held: Held, compiled: Compiled) -> None:
    matcher = compiled("json_object")
    assert held.accepts(matcher, '{"a": [1, {"b": null}]}')
    assert not held.accepts(matcher, "[1]")


def test_a_schema_may_come_as_text(held: Held, compiled: Compiled) -> None:
    matcher = compiled("json_schema", '{"type": "integer"}')
    assert held.accepts(matcher, "12")
    with pytest.raises(RequestError) as caught:
        compiled("json_schema", '{"type": ')
    assert (caught.value.code, caught.value.info.param) == (Code.INVALID_SCHEMA, "the field")


LONG = 'say "<b>x</b>" & \\n\n' * 30


@pytest.mark.parametrize("whitespace", ["none", "short"])
def test_long_strings_with_everything_in_them_l9(
    held: Held, compiled: Compiled, whitespace: str
) -> None:
    schema = {"properties": {"s": {"type": "string"}}, "required": ["s"]}
    matcher = compiled("json_schema", schema, whitespace=whitespace)
    written = LONG.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert len(LONG) > 500
    assert held.accepts(matcher, f'{{"s":"{written}"}}')


WRONG: dict[str, tuple[ConstraintKind, Any, str, dict[str, Any] | None]] = {
    "no such rule": ("lark", 'start: a\na: "x" b', "unknown name", {"line": 2, "column": 4}),
    "a bracket too many": ("lark", 'start: ("a"', "line 1, column 12", {"line": 1, "column": 12}),
    "no start": ("lark", 'a: "x"', "no rule named start", None),
    "an endless rule": ("lark", "start: a\na: a", "nothing can ever satisfy it", None),
    "a schema within": (
        "lark",
        'start: "x" j\nj: %json {"type": "objct"}',
        "Invalid type",
        {"line": 2, "column": 4},
    ),
    "a special token": ("lark", "start: <|nope|>", "special token", {"line": 1, "column": 8}),
    "an open group": ("regex", "(a", "unclosed group", None),
    "a look ahead": ("regex", "(?=a)b", "look-around", None),
    "a long expression": ("regex", "a" * (PATTERN_CHARACTERS + 1), "4096 characters", None),
    "no choice": ("choice", (), "1 to 1000", None),
    "many choices": ("choice", tuple(map(str, range(CHOICES + 1))), "1 to 1000", None),
    "a long grammar": ("lark", 'start: "a"' + " " * LARK_CHARACTERS, "characters", None),
    "many lines": ("lark", 'start: "a"' + "\n" * LARK_LINES, "lines", None),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_compiled_is_told_in_a_sentence(
    compiled: Compiled, case: tuple[ConstraintKind, Any, str, dict[str, Any] | None]
) -> None:
    kind, value, reason, details = case
    with pytest.raises(RequestError) as caught:
        compiled(kind, value)
    error = caught.value.info
    assert (error.code, error.param, error.details) == (Code.INVALID_GRAMMAR, "the field", details)
    assert reason in error.message
    assert len(error.message) < 300
    assert "\n" not in error.message
    assert "<|tool" not in error.message
