"""Forced calls come back out of the very markup they were forced into, with valid arguments."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from headrace.actors.grammar.answer import AnswerForm, answer_form
from headrace.actors.text.formats import CALL_FORMATS
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import THINK, Start
from headrace.runtime.contracts import Tool, ToolUse
from headrace.runtime.testing.answers import WholeAnswer, parse

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"enum": ["celsius", "kelvin"]},
        "note": {"type": ["string", "null"]},
        "exact": {"type": "boolean"},
    },
    "required": ["city", "days"],
}
FILE = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "pattern": "^[a-z]{1,8}$"},
        "lines": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "owner": {"$ref": "#/$defs/owner"},
    },
    "required": ["path", "owner"],
    "additionalProperties": False,
    "$defs": {"owner": {"type": "object", "properties": {"id": {"type": "integer"}}}},
}
NESTED = {
    "type": "object",
    "properties": {
        "a": {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "number"}}},
        "l": {"type": "array", "items": {"enum": ["x", 1, None]}, "minItems": 1},
    },
}
OPEN = {"type": "object", "additionalProperties": {"type": "integer"}}
TOOLS = (
    Tool("get_weather", WEATHER),
    Tool("write_file", FILE),
    Tool("nested.call-1", NESTED),
    Tool("counts", OPEN),
    Tool("ping", None),
)
SCHEMAS = {tool.name: tool.parameters or {} for tool in TOOLS}
MARKUPS: dict[str, Markup | None] = {
    "none": None,
    "reasoning only": TaggedMarkup(THINK),
    "unknown form": TaggedMarkup(None, TaggedMarkup),  # type: ignore[arg-type]
    "harmony": HarmonyMarkup(),
    **{name: TaggedMarkup(THINK, form) for name, form in CALL_FORMATS.items()},
}
markups = pytest.mark.parametrize("name", MARKUPS)


def said(held: Any, form: AnswerForm, count: int) -> list[str]:
    """What comes to its end of so many random answers."""
    row = held.compiler.compile(form.grammar)
    answers = [held.walk(row, random.Random(seed)) for seed in range(count)]
    return [text for text in answers if text is not None]


def read(form: AnswerForm, text: str, tools: dict[str, Any], start: Start) -> WholeAnswer:
    if form.markup is None:
        return WholeAnswer(content=text)
    return WholeAnswer.of(parse(form.markup, tools, [text], start=start))


def forced(held: Any, markup: Markup | None, start: Start = "after", **use: Any) -> AnswerForm:
    asked = ToolUse(TOOLS, **{"choice": "required", **use})
    form = answer_form(None, asked, markup, start, held.compiler.special)
    assert form is not None
    return form


def check(answer: WholeAnswer, *, most: int | None = None) -> None:
    assert answer.content == ""
    assert 1 <= len(answer.calls) <= (most or 99)
    for call in answer.calls:
        assert call.complete
        jsonschema.validate(json.loads(call.arguments), {"type": "object"} | SCHEMAS[call.name])


@markups
def test_forced_calls_parse_back_and_validate_l6(held: Any, name: str) -> None:
    form, seen = forced(held, MARKUPS[name]), set[str]()
    texts = said(held, form, 8)
    for text in texts:
        answer = read(form, text, SCHEMAS, "after")
        check(answer)
        seen |= {call.name for call in answer.calls}
    assert len(texts) >= 4
    assert len(seen) >= 3


@markups
def test_without_parallel_calls_there_is_exactly_one(held: Any, name: str) -> None:
    form = forced(held, MARKUPS[name], parallel=False)
    whole = [read(form, text, SCHEMAS, "after") for text in said(held, form, 4)]
    assert len(whole) >= 2
    for answer in whole:
        check(answer, most=1)


@markups
def test_a_named_tool_is_the_only_one_l6(held: Any, name: str) -> None:
    form = forced(held, MARKUPS[name], named=("get_weather",), parallel=False)
    whole = [read(form, text, SCHEMAS, "after") for text in said(held, form, 4)]
    assert len(whole) >= 2
    for answer in whole:
        check(answer)
        assert {call.name for call in answer.calls} == {"get_weather"}
