"""Answers made of the shards of every format, in any order: nothing fails, and nothing depends on
where the text is cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.actors.text.formats import CALL_FORMATS
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import THINK, Start
from headrace.runtime.testing.answers import WholeAnswer, parse

TOOLS: dict[str, Any] = {
    "f": {
        "properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "a": {"type": "array"}}
    },
    "g": {},
}
JSON_SHARDS = [
    '{"name": "f", "arguments": {"n": 3.0, "s": "x"}}', '{"name": "g"', '"arguments": ', '{"n": ',
    '"s": "', '"parameters": {}', '{"name": "h", ', '"', "}", "]", "[", "{", ",", ":", "3.0", "12",
    "true", "null", "nul", "None", "\\", "\\u00", "'", '"n": "4"', "\n", " ", "x", "é", "👩‍👧",
    "<", ">",
]  # fmt: skip
SHARDS = {
    "json_tools": ["<tool_call>", "</tool_call>", "<tool_call>\n", "</tool"],
    "llama3": ["<|python_tag|>", "; ", '{"type": "function", "name": "f", '],
    "mistral": ["[TOOL_CALLS]", "[ARGS]", "f[ARGS]", "g", "[CALL_ID]", "[TOOL_CALLS]f[ARGS]{"],
    "deepseek": [
        "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>f\n```json\n",
        "f<｜tool▁sep｜>", "\n```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
    ],
    "deepseek_dsml": [
        "<｜DSML｜function_calls>\n", '<｜DSML｜invoke name="f">\n', "</｜DSML｜parameter>",
        '<｜DSML｜parameter name="s" string="true">', '<｜DSML｜parameter name="n">',
        "</｜DSML｜invoke>", "</｜DSML｜function_calls>",
    ],
    "kimi_k2": [
        "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.f:0", "g",
        "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>",
    ],
    "glm47": [
        "<tool_call>f\n", "<tool_call>", "g", "<arg_key>n</arg_key>", "<arg_key>s</arg_key>\n",
        "<arg_value>", "</arg_value>", "</tool_call>", "<arg_key>",
    ],
    "qwen3_coder": [
        "<tool_call>\n", "<function=f>\n", "<function=g>", "<parameter=n>\n", "<parameter=s>\n",
        "<parameter=a>", "\n</parameter>\n", "</parameter>", "</function>\n", "</tool_call>",
    ],
    "minimax_m2": [
        "<minimax:tool_call>", '<invoke name="f">\n', '<parameter name="n">', "</parameter>\n",
        '<parameter name="s">', "</invoke>\n", "</minimax:tool_call>",
    ],
    "muse_spark": [
        "<atem:function_calls>", '<atem:invoke name="f">', '<atem:parameter name="s">',
        "</atem:parameter>", "</atem:invoke>", "</atem:function_calls>",
    ],
    "function_gemma": [
        "<start_function_call>", "call:f{", "call:g{}", "n:", "s:", "<escape>",
        "<end_function_call>",
    ],
    "gemma4": ["<|tool_call>", "call:f{", "call:g{}", "n:", "s:", '<|"|>', "<tool_call|>"],
    "harmony": [
        "<|start|>assistant", "<|channel|>", "analysis", "final", "commentary", " to=functions.f ",
        "<|constrain|>json", "<|message|>", "<|end|>", "<|call|>", "to=h",
    ],
}  # fmt: skip


def markup_of(name: str) -> Markup:
    return HarmonyMarkup() if name == "harmony" else TaggedMarkup(THINK, CALL_FORMATS[name])


@st.composite
def cut_answers(draw: st.DrawFn, name: str) -> tuple[str, list[str], Start]:
    shards = [*SHARDS[name], *SHARDS[name], *JSON_SHARDS, "<think>", "</think>"]
    text = "".join(draw(st.lists(st.sampled_from(shards), max_size=16)))
    borders = draw(st.lists(st.integers(0, len(text)), max_size=10))
    places = [0, *sorted(borders), len(text)]
    start: Start = draw(st.sampled_from(["before", "inside", "after"]))
    return text, [text[a:b] for a, b in pairwise(places)], start


def begins(answer: WholeAnswer, whole: WholeAnswer) -> bool:
    calls = list(zip(answer.calls, whole.calls, strict=False))
    return (
        whole.content.startswith(answer.content)
        and whole.reasoning.startswith(answer.reasoning)
        and len(calls) == len(answer.calls)
        and all(full.name == call.name for call, full in calls)
        and all(full.arguments.startswith(call.arguments) for call, full in calls)
    )


@pytest.mark.parametrize("name", SHARDS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_answer_is_the_same_in_pieces_and_cut_a_beginning_l4_l5(
    name: str, data: st.DataObject
) -> None:
    markup = markup_of(name)
    text, parts, start = data.draw(cut_answers(name))
    whole = parse(markup, TOOLS, [text], start=start)
    assert parse(markup, TOOLS, parts, start=start) == whole
    assert parse(markup, TOOLS, list(text), start=start) == whole
    cut = text[: data.draw(st.integers(0, len(text)))]
    shown = parse(markup, TOOLS, [cut], start=start, cut=True)
    assert parse(markup, TOOLS, list(cut), start=start, cut=True) == shown
    assert begins(WholeAnswer.of(shown), WholeAnswer.of(whole))
