"""Tool calls where models stray from the format: unknown names, broken arguments, early ends."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import regex

from headrace.actors.text import formats
from headrace.actors.text.calls import CallFormat
from headrace.actors.text.calls_parsed import ParsedCalls
from headrace.actors.text.events import CallArguments, CallEnded, CallStarted, Text
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.runtime.testing.answers import AnswerCall, WholeAnswer, parse, pieces

TOOLS: dict[str, Any] = {
    "f": {
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string"},
            "o": {"type": ["string", "null"]},
        }
    },
    "g": {},
}


def tagged(form: CallFormat) -> Markup:
    return TaggedMarkup(None, form)


def read(markup: Markup, text: str, *, cut: bool = False, size: int | None = None) -> WholeAnswer:
    return WholeAnswer.of(parse(markup, TOOLS, pieces(text, size or len(text)), cut=cut))


def complete(name: str, arguments: str) -> AnswerCall:
    return AnswerCall(name, arguments, complete=True)


def test_two_calls_get_the_indices_0_and_1_l3() -> None:
    text = '<tool_call>{"name": "g"}</tool_call>\n<tool_call>{"name": "g"}</tool_call>'
    assert parse(tagged(formats.HERMES), TOOLS, [text]) == [
        CallStarted(0, "g"), CallArguments(0, "{}"), CallEnded(0),
        CallStarted(1, "g"), CallArguments(1, "{}"), CallEnded(1),
    ]  # fmt: skip


UNKNOWN = {
    "hermes": (
        tagged(formats.HERMES),
        '<tool_call>\n{"name": "h", "arguments": {"x": "</b>"}}\n</tool_call>',
    ),
    "hermes, arguments first": (
        tagged(formats.HERMES),
        '<tool_call>\n{"arguments": {"x": 1}, "name": "h"}\n</tool_call>',
    ),
    "hermes, no call at all": (tagged(formats.HERMES), "Write <tool_call> and then </tool_call>."),
    "hermes, no name": (tagged(formats.HERMES), '<tool_call>{"arguments": {}}</tool_call>'),
    "llama3": (tagged(formats.LLAMA3), '{"name": "h", "parameters": {}}'),
    "mistral": (tagged(formats.MISTRAL), '[TOOL_CALLS]h[ARGS]{"x": 1}'),
    "mistral list": (tagged(formats.MISTRAL), '[TOOL_CALLS][{"name": "h", "arguments": {}}]'),
    "deepseek": (
        tagged(formats.DEEPSEEK),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>h<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    "kimi": (
        tagged(formats.KIMI_K2),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.h:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>",
    ),
    "glm": (tagged(formats.GLM), "<tool_call>h\n<arg_key>x</arg_key>\n</tool_call>"),
    "qwen3 coder": (
        tagged(formats.QWEN3_CODER),
        "<tool_call>\n<function=h>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    ),
    "gemma": (tagged(formats.FUNCTION_GEMMA), "<start_function_call>call:h{}<end_function_call>"),
    "harmony": (HarmonyMarkup(), "<|channel|>commentary to=functions.h<|message|>{}"),
}


@pytest.mark.parametrize("case", UNKNOWN.values(), ids=UNKNOWN.keys())
@pytest.mark.parametrize("size", [None, 1, 3])
def test_the_markup_of_an_unknown_tool_is_content(
    case: tuple[Markup, str], size: int | None
) -> None:
    markup, text = case
    assert read(markup, f"{text}", size=size) == WholeAnswer(content=text)


def test_a_known_call_after_an_unknown_one_is_read() -> None:
    text = '<tool_call>{"name": "h"}</tool_call>\n<tool_call>{"name": "g"}</tool_call>'
    answer = read(tagged(formats.HERMES), text)
    assert answer.content == '<tool_call>{"name": "h"}</tool_call>\n'
    assert answer.calls == (complete("g", "{}"),)


RAW = {
    "a word": ('{"n": 1, "s": oops}', '{"n": 1, "s": oops}'),
    "no object": ("[1, 2", "[1, 2"),
    "single quotes": ("{'s': 1}", "{'s': 1}"),
    "a trailing comma": ('{"n": 1,}', '{"n": 1,}'),
    "a string that holds no object": ('"three"', '"three"'),
}


@pytest.mark.parametrize(("written", "raw"), RAW.values(), ids=RAW.keys())
@pytest.mark.parametrize("size", [None, 1, 3])
def test_arguments_that_cannot_be_read_are_passed_raw(
    written: str, raw: str, size: int | None
) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {written}}}</tool_call>Next.'
    answer = read(tagged(formats.HERMES), text, size=size)
    assert answer == WholeAnswer("Next.", calls=(complete("f", raw),))


STRAY = {
    "encoded twice": ('{"name": "f", "arguments": "{\\"n\\": 3.0}"}', '{"n": 3}'),
    "null": ('{"name": "f", "arguments": null}', "{}"),
    "null before the name": ('{"arguments": null, "name": "f"}', "{}"),
    "absent": ('{"name": "f"}', "{}"),
    "a bracket too many": ('{"name": "f", "arguments": {"n": 1}}}', '{"n": 1}'),
    "a bracket too few": ('{"name": "f", "arguments": {"n": 1}', '{"n": 1}'),
    "more members": ('{"id": "a", "name": "f", "arguments": {"n": 1}, "x": [1]}', '{"n": 1}'),
    "members that are no JSON": ('{"name": "f", "arguments": {"n": 1}, x}', '{"n": 1}'),
    "a nested function": (
        '{"type": "function", "function": {"name": "f", "arguments": {"n": 1}}}',
        '{"n": 1}',
    ),
    "words of Python": ('{"name": "f", "arguments": {"o": None}}', '{"o": null}'),
    "broken after the name": ('{"name": "f", oops}', "oops"),
}


@pytest.mark.parametrize(("body", "arguments"), STRAY.values(), ids=STRAY.keys())
@pytest.mark.parametrize("size", [None, 1, 3])
def test_what_models_get_wrong_is_put_right(body: str, arguments: str, size: int | None) -> None:
    text = f"<tool_call>\n{body}\n</tool_call>\nDone."
    answer = read(tagged(formats.HERMES), text, size=size)
    assert answer.calls == (complete("f", arguments),)
    assert answer.content.strip() == "Done."


def test_values_in_tags_are_read_by_the_schema_l9() -> None:
    body = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n"
        for key, value in {"n": "3.0", "s": '"3"\n<b>', "o": "null", "other": "[1]"}.items()
    )
    text = f"<tool_call>\n<function=f>\n{body}</function>\n</tool_call>"
    (call,) = read(tagged(formats.QWEN3_CODER), text).calls
    assert json.loads(call.arguments) == {"n": 3, "s": '"3"\n<b>', "o": None, "other": [1]}


@pytest.mark.parametrize("text", ["nul", "None at all", "", "  ", "nullable\nnull"])
@pytest.mark.parametrize("size", [None, 1])
def test_a_string_that_may_be_null_is_null_only_if_it_says_so(text: str, size: int | None) -> None:
    body = f"<function=f>\n<parameter=o>\n{text}\n</parameter>\n</function>\n</tool_call>"
    (call,) = read(tagged(formats.QWEN3_CODER), body, size=size).calls
    assert json.loads(call.arguments) == {"o": text}


def test_strings_in_tags_flow() -> None:
    markup, text = tagged(formats.QWEN3_CODER), "<function=f>\n<parameter=s>\nsome te"
    assert read(markup, text, cut=True).calls == (AnswerCall("f", '{"s": "some te', False),)


@pytest.mark.parametrize("body", ['{"n": 3.0}', '\n{"n": 3}\n'])
def test_json_between_tags_is_read(body: str) -> None:
    for markup, text in [
        (formats.QWEN3_CODER, f"<tool_call><function=f>{body}</function></tool_call>"),
        (formats.GLM, f"<tool_call>f{body}</tool_call>"),
    ]:
        assert read(tagged(markup), text).calls == (complete("f", '{"n": 3}'),)


def test_a_call_whose_outer_tags_are_missing_at_the_end_is_complete() -> None:
    text = "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n</function>"
    assert read(tagged(formats.QWEN3_CODER), text).calls == (complete("f", '{"s": "x"}'),)


CUT = {
    "in the opener": ("Hm.\n<tool_c", WholeAnswer("Hm.\n")),
    "before the name": ('Hm.\n<tool_call>{"na', WholeAnswer("Hm.\n")),
    "in the name": ('Hm.\n<tool_call>{"name": "f', WholeAnswer("Hm.\n")),
    "after the name": (
        'Hm.\n<tool_call>{"name": "f"',
        WholeAnswer("Hm.\n", calls=(AnswerCall("f", "", complete=False),)),
    ),
    "in a number": (
        'Hm.\n<tool_call>{"name": "f", "arguments": {"n": 12',
        WholeAnswer("Hm.\n", calls=(AnswerCall("f", '{"n": ', complete=False),)),
    ),
    "in a string": (
        'Hm.\n<tool_call>{"name": "f", "arguments": {"s": "<b',
        WholeAnswer("Hm.\n", calls=(AnswerCall("f", '{"s": "<b', complete=False),)),
    ),
    "in the closing tag": (
        'Hm.\n<tool_call>{"name": "f", "arguments": {}}\n</tool',
        WholeAnswer("Hm.\n", calls=(complete("f", "{}"),)),
    ),
}


@pytest.mark.parametrize(("text", "answer"), CUT.values(), ids=CUT.keys())
def test_a_call_cut_by_the_end_shows_no_markup_l5_h7(text: str, answer: WholeAnswer) -> None:
    assert read(tagged(formats.HERMES), text, cut=True, size=1) == answer


def test_text_that_ends_like_markup_is_text_if_the_model_ended_it() -> None:
    assert read(tagged(formats.HERMES), "a <tool_").content == "a <tool_"
    assert read(tagged(formats.HERMES), "a <tool_", cut=True).content == "a "


def test_whitespace_alone_around_calls_is_markup() -> None:
    text = '\n\n<tool_call>{"name": "g"}</tool_call>\n\n<tool_call>{"name": "g"}</tool_call>\n'
    assert read(tagged(formats.HERMES), text).content == ""


def test_text_after_a_call_is_text() -> None:
    text = '<tool_call>{"name": "g"}</tool_call>\n Then.'
    events = parse(tagged(formats.HERMES), TOOLS, [text])
    assert events[-1] == Text("\n Then.", text.index("\n"))


def test_an_answer_of_whitespace_is_text() -> None:
    assert read(tagged(formats.HERMES), " \n").content == " \n"


def test_bare_json_counts_only_where_an_answer_begins() -> None:
    call = '{"name": "g", "parameters": {}}'
    assert read(tagged(formats.LLAMA3), f"So: {call}").content == f"So: {call}"
    assert read(tagged(formats.LLAMA3), f" {call}").calls == (complete("g", "{}"),)


def read_colons(text: str, tools: list[dict[str, Any]]) -> Any:
    """A parser from outside: calls like `f:{"n": 1}`, a line each."""
    assert {tool["function"]["name"] for tool in tools} == {"f", "g"}
    calls = [line.partition(":") for line in text.strip().split("\n")]
    return [{"name": name, "arguments": json.loads(arguments)} for name, _, arguments in calls]


PARSED = ParsedCalls(("<calls>",), regex.compile("</calls>"), read_colons)


@pytest.mark.parametrize("size", [None, 1, 3])
def test_a_parser_from_outside_reads_complete_calls(size: int | None) -> None:
    text = 'Hm.<calls>\nf:{"n": 3.0}\ng:{}\n</calls>'
    answer = read(tagged(PARSED), text, size=size)
    assert answer == WholeAnswer("Hm.", calls=(complete("f", '{"n":3}'), complete("g", "{}")))


@pytest.mark.parametrize("body", ["f", 'f:{"n": 1}\nh:{}', "f:oops", "f:3\nf", ""])
def test_what_the_parser_from_outside_cannot_read_is_content(body: str) -> None:
    text = f"<calls>{body}</calls> Hm."
    assert read(tagged(PARSED), text) == WholeAnswer(text)


def test_a_cut_call_is_none_where_a_parser_from_outside_reads() -> None:
    assert read(tagged(PARSED), "Hm.<calls>f:{", cut=True) == WholeAnswer("Hm.")


def test_nesting_without_end_is_no_call() -> None:
    text = "<tool_call>" + '{"function": ' * 5000
    assert read(tagged(formats.HERMES), text).content == text
    deep = '<tool_call>{"name": "f", "arguments": ' + '{"o": ' * 5000
    assert len(read(tagged(formats.HERMES), deep).calls) == 1


def test_markup_that_stays_undecided_takes_linear_time() -> None:
    """No name comes, so twenty thousand characters are held, in pieces of one token."""
    text = '<tool_call>{"arguments": "' + "<tool_call>" * 2000
    begun = time.process_time()
    assert read(tagged(formats.HERMES), text, cut=True, size=4).content == ""
    assert time.process_time() - begun < 2
