"""Whole answers: reasoning before what is asked for, calls or a value, text with calls in it."""

from __future__ import annotations

import json
import random
from typing import Any, TypeAlias

import pytest

from headrace.actors.grammar.answer import AnswerForm, answer_form
from headrace.actors.grammar.wanted import callable_tools
from headrace.actors.text.formats import CALL_FORMATS, HERMES, LLAMA3
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import THINK, ReasoningMarks, Start
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import Tool, ToolUse
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.testing.answers import WholeAnswer, parse

Held: TypeAlias = Any

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
VALUE = Constraint("json_schema", SCHEMA)
ADD = Tool("add", {"properties": {"a": {"type": "integer"}}, "required": ["a"]}, strict=True)
SEND = Tool("send", {"properties": {"to": {"type": "string"}}, "required": ["to"]})
TOOLS = {"add": ADD.parameters, "send": SEND.parameters}
# Marks that are text, and marks that are special tokens.
SQUARE = ReasoningMarks("[THINK]", "[/THINK]")
marks_of_both_kinds = pytest.mark.parametrize("marks", [THINK, SQUARE], ids=["text", "tokens"])


def form_of(
    held: Held,
    constraint: Constraint | None,
    use: ToolUse | None,
    markup: Markup | None,
    start: Start = "after",
) -> AnswerForm:
    form = answer_form(constraint, use, markup, start, held.compiler.special)
    assert form is not None
    return form


def accepts(held: Held, form: AnswerForm, text: str) -> bool:
    """With the texts of special tokens as those tokens."""
    accepted: bool = held.accepts(held.compiler.compile(form.grammar), text)
    return accepted


def walks(held: Held, form: AnswerForm, count: int) -> list[str]:
    matcher = held.compiler.compile(form.grammar)
    said = [held.walk(matcher, random.Random(seed), hasty_after=12) for seed in range(count)]
    return [text for text in said if text is not None]


def read(form: AnswerForm, text: str, start: Start = "after") -> WholeAnswer:
    assert form.markup is not None
    return WholeAnswer.of(parse(form.markup, TOOLS, [text], start=start))


# ---- reasoning ---------------------------------------------------------------------------


@marks_of_both_kinds
def test_the_value_begins_after_an_open_block_has_closed(held: Held, marks: ReasoningMarks) -> None:
    form = form_of(held, VALUE, None, TaggedMarkup(marks), "inside")
    assert accepts(held, form, f'Any {{"thought"\n{marks.close}\n\n{{"ok": true}}')
    assert accepts(held, form, f'{marks.close}{{"ok": true}}')
    assert not accepts(held, form, '{"ok": true}')
    assert not accepts(held, form, f"Any thought{marks.close}No.")


@marks_of_both_kinds
def test_a_block_may_be_opened_or_left_out(held: Held, marks: ReasoningMarks) -> None:
    form = form_of(held, VALUE, None, TaggedMarkup(marks), "before")
    assert accepts(held, form, f'{marks.open}\nHm.\n{marks.close}\n\n{{"ok": true}}')
    assert accepts(held, form, '{"ok": true}')
    assert not accepts(held, form, 'Hm.{"ok": true}')


@marks_of_both_kinds
def test_what_is_said_reads_as_reasoning_and_value(held: Held, marks: ReasoningMarks) -> None:
    form = form_of(held, VALUE, None, TaggedMarkup(marks), "inside")
    said = walks(held, form, 12)
    assert len(said) > 6
    for text in said:
        assert isinstance(json.loads(read(form, text, "inside").content)["ok"], bool)


def test_without_reasoning_the_value_is_all(held: Held) -> None:
    for markup in (None, TaggedMarkup(), TaggedMarkup(THINK)):
        form = form_of(held, VALUE, None, markup, "after")
        assert form.markup is markup
        assert accepts(held, form, '{"ok": true}')
        assert not accepts(held, form, "<think></think>")


def test_a_row_cannot_end_within_its_reasoning_n2(held: Held) -> None:
    form = form_of(held, VALUE, None, TaggedMarkup(THINK), "inside")
    row = held.compiler.compile(form.grammar)
    for token in held.tokenizer.encode("I think that", add_special_tokens=False).ids:
        assert held.ends.isdisjoint(held.allowed(row))
        row.consume(token)
    assert held.ends.isdisjoint(held.allowed(row))


@pytest.mark.parametrize("start", ["before", "inside", "after"])
def test_harmony_has_the_value_in_its_final_message(held: Held, start: Start) -> None:
    form = form_of(held, VALUE, None, HarmonyMarkup(), start)
    for text in walks(held, form, 8):
        answer = read(form, text, start)
        assert isinstance(json.loads(answer.content)["ok"], bool)
    final = '<|channel|>final<|message|>{"ok": true}'
    whole = {
        "before": f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{final}",
        "inside": f"Hm.<|end|><|start|>assistant{final}",
        "after": '{"ok": true}',
    }
    assert accepts(held, form, whole[start])
    assert accepts(held, form, final) is (start == "before")


REASONING: dict[str, tuple[Markup, str]] = {
    "harmony": (HarmonyMarkup(), "<|channel|>analysis<|message|>"),
    "text": (TaggedMarkup(THINK, HERMES), THINK.open),
    "tokens": (TaggedMarkup(SQUARE, HERMES), SQUARE.open),
}


@pytest.mark.parametrize("said", ["", "Hm. ", "Is it </thi", "So {"])
@pytest.mark.parametrize("start", ["before", "inside"])
@pytest.mark.parametrize("name", REASONING)
@pytest.mark.parametrize(
    ("constraint", "use"),
    [(VALUE, None), (None, ToolUse((ADD,), "required")), (VALUE, ToolUse((ADD, SEND)))],
    ids=["value", "calls", "either"],
)
def test_reasoning_that_is_closed_from_outside_leads_on_to_the_form_n2(
    held: Held,
    constraint: Constraint | None,
    use: ToolUse | None,
    name: str,
    start: Start,
    said: str,
) -> None:
    """What a budget makes a row say must be of its grammar, wherever in a thought it comes."""
    markup, opening = REASONING[name]
    form = form_of(held, constraint, use, markup, start)
    begun = (opening if start == "before" else "") + said + markup.ending
    row = held.compiler.compile(form.grammar)
    for part in (begun.removesuffix(markup.ending), markup.ending):
        for token in held.tokenizer.encode(part, add_special_tokens=False).ids:
            row.consume(token)
            assert row.broken is None
    rests = [held.walk(row, random.Random(seed), hasty_after=12) for seed in range(3)]
    ended = [begun + rest for rest in rests if rest is not None]
    assert ended
    for text in ended:
        answer = read(form, text, start)
        assert answer.reasoning.strip() == said.strip()
        if answer.calls:
            assert all(json.loads(call.arguments) for call in answer.calls)
        else:
            assert isinstance(json.loads(answer.content)["ok"], bool)


# ---- calls or a value --------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CALL_FORMATS, None])
def test_an_answer_is_calls_or_the_value(held: Held, name: str | None) -> None:
    markup = TaggedMarkup(THINK, CALL_FORMATS[name] if name else None)
    form = form_of(held, VALUE, ToolUse((ADD, SEND)), markup)
    kinds = set[bool]()
    for text in walks(held, form, 16):
        answer = read(form, text)
        kinds.add(bool(answer.calls))
        if answer.calls:
            assert answer.content == ""
            assert all(call.complete and json.loads(call.arguments) for call in answer.calls)
        else:
            assert isinstance(json.loads(answer.content)["ok"], bool)
    assert kinds == {True, False}
    assert not accepts(held, form, "Hello")


def test_required_calls_leave_no_way_to_the_value(held: Held) -> None:
    form = form_of(held, VALUE, ToolUse((ADD,), "required"), TaggedMarkup(None, HERMES))
    assert not accepts(held, form, '{"ok": true}')
    assert all(read(form, text).calls for text in walks(held, form, 5))


@pytest.mark.parametrize("start", ["before", "inside"])
def test_forced_calls_come_after_the_reasoning(held: Held, start: Start) -> None:
    form = form_of(held, None, ToolUse((ADD,), "required"), TaggedMarkup(THINK, HERMES), start)
    said = walks(held, form, 8)
    assert said
    for text in said:
        answer = read(form, text, start)
        assert answer.content == ""
        assert answer.calls


# ---- calls in free text ------------------------------------------------------------------


FREE = ["json_tools", "llama3", "mistral", "kimi_k2", "deepseek", "qwen3_coder", "glm47", "gemma4"]


@pytest.mark.parametrize("name", FREE)
def test_text_is_free_and_a_call_in_it_is_not(held: Held, name: str) -> None:
    markup = TaggedMarkup(None, CALL_FORMATS[name])
    form = form_of(held, None, ToolUse((ADD, SEND)), markup)
    assert accepts(held, form, "Just < some [text].")
    assert accepts(held, form, "")
    forced = form_of(held, None, ToolUse((ADD,), "required", parallel=False), markup)
    for call in walks(held, forced, 3):
        before = "" if name == "llama3" else "Let me see. "
        assert accepts(held, form, before + call)
        assert not accepts(held, form, before + call.replace("add", "sub"))


def test_tools_of_which_none_is_strict_leave_an_answer_free() -> None:
    assert (
        answer_form(None, ToolUse((SEND,)), TaggedMarkup(None, HERMES), "after", no_token) is None
    )
    assert answer_form(None, None, None, "after", no_token) is None
    assert answer_form(None, ToolUse((ADD,), "none"), None, "after", no_token) is None


def test_a_model_that_writes_no_calls_is_not_held_to_any_it_may_leave_out() -> None:
    assert answer_form(None, ToolUse((ADD,)), TaggedMarkup(THINK), "after", no_token) is None


def no_token(text: str) -> int | None:
    return None


# ---- schemas of tools --------------------------------------------------------------------


def test_what_is_not_enforced_is_told_of_tools_that_are_not_strict(held: Held) -> None:
    loose = Tool("f", {"properties": {"a": {"items": {}, "uniqueItems": True}}})
    use = ToolUse((loose,), "required")
    form = form_of(held, None, use, TaggedMarkup(None, LLAMA3))
    assert [(left.keyword, left.path) for left in form.unenforced] == [
        ("uniqueItems", "#/properties/a")
    ]


def test_a_wrong_schema_names_its_tool_even_if_that_is_not_to_be_called_i5() -> None:
    use = ToolUse((ADD, Tool("f", {"properties": {"a": {"type": "objct"}}})), named=("add",))
    with pytest.raises(RequestError) as caught:
        callable_tools(use)
    error = caught.value.info
    assert (error.code, error.param) == (Code.INVALID_SCHEMA, "tools[1]")


@pytest.mark.parametrize("parameters", [{"type": "array"}, {"type": ["object"]}, [], "x"])
def test_arguments_are_an_object(parameters: Any) -> None:
    with pytest.raises(RequestError) as caught:
        callable_tools(ToolUse((Tool("f", parameters),)))
    assert caught.value.code is Code.INVALID_SCHEMA
