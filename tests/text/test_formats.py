"""Recorded answers of every format: the same result wherever the text is cut, and a cut answer
shows a beginning of what the whole one shows."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
import pytest

from headrace.actors.text import formats
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import REASONING_MARKS, THINK, ReasoningMarks, Start
from headrace.runtime.testing.answers import WholeAnswer, parse, pieces

TOOLS: dict[str, Any] = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["city"],
    },
    "write_file": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "options": {"type": "object"},
            "force": {"type": "boolean"},
        },
    },
    "list_files": {"type": "object", "properties": {}},
}
OSLO = ("get_weather", {"city": "Oslo", "days": 3})
NOTE = ("write_file", {"path": "a.py", "content": 'print("</b>")\nx < 1 && y', "lines": [1, 2]})
LIST: tuple[str, dict[str, Any]] = ("list_files", {})


@attrs.frozen
class Recorded:
    """An answer as a model of that family writes it, and what it says."""

    id: str
    markup: Markup
    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    content: str = ""
    reasoning: str = ""
    start: Start = "before"


def block(marks: ReasoningMarks) -> Recorded:
    content = f"Yes: {marks.close} and {marks.open}."
    text = f"{marks.open}\nIt is < 5,\n\nso yes.\n{marks.close}\n\n{content}"
    return Recorded(
        f"reasoning {marks.open}",
        TaggedMarkup(marks),
        text,
        content=content,
        reasoning="It is < 5,\n\nso yes.",
    )


RECORDED = [
    *map(block, REASONING_MARKS),
    Recorded(
        "reasoning opened by the template",
        TaggedMarkup(THINK),
        "Let me see.\n</think>\n\nNo </think> here.",
        content="No </think> here.",
        reasoning="Let me see.",
        start="inside",
    ),
    Recorded(
        "hermes",
        TaggedMarkup(THINK, formats.HERMES),
        "<think>\nI need the weather.\n</think>\n\nOne moment.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3.0}}\n</tool_call>\n'
        '<tool_call>\n{"arguments": {"path": "a.py", "content": "print(\\"</b>\\")\\nx < 1 && y", '
        '"lines": [1, 2.0]}, "name": "write_file"}\n</tool_call>',
        (OSLO, NOTE),
        content="One moment.\n",
        reasoning="I need the weather.",
    ),
    Recorded(
        "hermes with the closing tag inside",
        TaggedMarkup(None, formats.HERMES),
        '<tool_call>{"name": "write_file", "arguments": {"content": "</tool_call>\\u00e9\n"}}'
        "</tool_call>",
        (("write_file", {"content": "</tool_call>é\n"}),),
    ),
    Recorded(
        "llama3",
        TaggedMarkup(None, formats.LLAMA3),
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Oslo", "days": "3"}}; '
        '{"name": "list_files", "parameters": {}}',
        (OSLO, LIST),
    ),
    Recorded(
        "llama3, bare",
        TaggedMarkup(None, formats.LLAMA3),
        '\n\n{"type": "function", "name": "get_weather", '
        '"parameters": {"city": "Oslo", "days": 3}}',
        (OSLO,),
    ),
    Recorded(
        "llama3 answering in JSON",
        TaggedMarkup(None, formats.LLAMA3),
        '{"name": "Oslo", "parameters": {"size": 5}}\n{"a": "b"}',
        content='{"name": "Oslo", "parameters": {"size": 5}}\n{"a": "b"}',
    ),
    Recorded(
        "mistral, list",
        TaggedMarkup(None, formats.MISTRAL),
        'Sure.[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}, '
        '"id": "a1b2c3d4e"}, {"name": "list_files", "arguments": {}, "id": "a1b2c3d4f"}]',
        (OSLO, LIST),
        content="Sure.",
    ),
    Recorded(
        "mistral, names",
        TaggedMarkup(None, formats.MISTRAL),
        'Sure.[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Oslo", "days": 3}'
        "[TOOL_CALLS]list_files[ARGS]{}",
        (OSLO, LIST),
        content="Sure.",
    ),
    Recorded(
        "deepseek v3",
        TaggedMarkup(THINK, formats.DEEPSEEK),
        "First.</think>Now.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
        '```json\n{"city": "Oslo", "days": 3}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>list_files\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (OSLO, LIST),
        content="Now.",
        reasoning="First.",
        start="inside",
    ),
    Recorded(
        "deepseek v3.1",
        TaggedMarkup(THINK, formats.DEEPSEEK),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Oslo", "days": 3}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>list_files<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (OSLO, LIST),
        start="after",
    ),
    Recorded(
        "deepseek v3.2",
        TaggedMarkup(THINK, formats.DEEPSEEK_DSML),
        'Both.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="write_file">\n'
        '<｜DSML｜parameter name="path" string="true">a.py</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="content" string="true">print("</b>")\nx < 1 && y'
        "</｜DSML｜parameter>\n"
        '<｜DSML｜parameter name="lines" string="false">[1, 2]</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        (OSLO, NOTE),
        content="Both.\n\n",
        start="after",
    ),
    Recorded(
        "kimi k2",
        TaggedMarkup(THINK, formats.KIMI_K2),
        "I'll look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        '<|tool_call_argument_begin|>{"city": "Oslo", "days": 3}<|tool_call_end|>'
        "<|tool_call_begin|>functions.list_files:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>",
        (OSLO, LIST),
        content="I'll look.",
    ),
    Recorded(
        "glm",
        TaggedMarkup(THINK, formats.GLM),
        "\n<think>Hm.</think>\nBoth.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
        "<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3.0</arg_value>\n"
        "</tool_call>\n<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n"
        '<arg_key>content</arg_key>\n<arg_value>print("</b>")\nx < 1 && y</arg_value>\n'
        "<arg_key>lines</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>\n"
        "<tool_call>list_files\n</tool_call>",
        (OSLO, NOTE, LIST),
        content="Both.\n",
        reasoning="Hm.",
    ),
    Recorded(
        "longcat",
        TaggedMarkup(None, formats.LONGCAT),
        "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
        "<longcat_arg_value>Oslo</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n"
        "<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>\n",
        (OSLO,),
    ),
    Recorded(
        "qwen3 coder",
        TaggedMarkup(THINK, formats.QWEN3_CODER),
        "Both.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
        "<function=write_file>\n<parameter=path>\na.py\n</parameter>\n<parameter=content>\n"
        'print("</b>")\nx < 1 && y\n</parameter>\n<parameter=lines>\n[1, 2.0]\n</parameter>\n'
        "</function>\n</tool_call>",
        (OSLO, NOTE),
        content="Both.\n",
    ),
    Recorded(
        "qwen3 coder with closing tags inside",
        TaggedMarkup(None, formats.QWEN3_CODER),
        "<tool_call>\n<function=write_file>\n<parameter=content>\na</parameter>b</function></tool_call>"
        "\n<tool_call>\n</parameter>\n</parameter>\n</function>\n</tool_call>",
        (
            (
                "write_file",
                {"content": "a</parameter>b</function></tool_call>\n<tool_call>\n</parameter>"},
            ),
        ),
    ),
    Recorded(
        "qwen3 coder without its outer tag",
        TaggedMarkup(None, formats.QWEN3_CODER),
        "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n3\n"
        "</parameter>\n</function>",
        (OSLO,),
    ),
    Recorded(
        "minimax m2",
        TaggedMarkup(THINK, formats.MINIMAX_M2),
        'Hm.\n</think>\n\n<minimax:tool_call>\n<invoke name="get_weather">\n'
        '<parameter name="city">Oslo</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n'
        '<invoke name="list_files">\n</invoke>\n</minimax:tool_call>\n',
        (OSLO, LIST),
        reasoning="Hm.",
        start="inside",
    ),
    Recorded(
        "muse spark",
        TaggedMarkup(None, formats.MUSE_SPARK),
        '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Oslo'
        '</atem:parameter>\n<atem:parameter name="days">3</atem:parameter>\n</atem:invoke>\n'
        "</atem:function_calls>",
        (OSLO,),
    ),
    Recorded(
        "function gemma",
        TaggedMarkup(None, formats.FUNCTION_GEMMA),
        "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:3}<end_function_call>"
        "<start_function_call>call:write_file{path:<escape>a.py<escape>,content:<escape>"
        'print("</b>")\nx < 1 && y<escape>,lines:[1,2.0]}<end_function_call>',
        (OSLO, NOTE),
    ),
    Recorded(
        "gemma 4",
        TaggedMarkup(REASONING_MARKS[-2], formats.GEMMA4),
        "<|channel>thought\nHm.\n<channel|>Both.<|tool_call>call:get_weather{city:"
        '<|"|>Oslo<|"|>,days:3}<tool_call|><|tool_call>call:write_file{path:<|"|>a.py<|"|>,content:'
        '<|"|>print("</b>")\nx < 1 && y<|"|>,lines:[1,2],options:{deep:{yes:true}}}<tool_call|>',
        (OSLO, ("write_file", {**NOTE[1], "options": {"deep": {"yes": True}}})),
        content="Both.",
        reasoning="Hm.",
    ),
    Recorded(
        "harmony",
        HarmonyMarkup(),
        "<|channel|>analysis<|message|>I need < 2 calls.<|end|><|start|>assistant"
        "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo", "days": 3}<|call|>'
        "<|start|>assistant to=functions.list_files<|channel|>commentary json<|message|>{}<|call|>",
        (OSLO, LIST),
        content="One moment.",
        reasoning="I need < 2 calls.",
    ),
    Recorded(
        "harmony, final",
        HarmonyMarkup(),
        "<|channel|>analysis<|message|>Easy.<|end|><|start|>assistant<|channel|>final<|message|>"
        "**Hello**, x < y\n",
        content="**Hello**, x < y\n",
        reasoning="Easy.",
    ),
    Recorded(
        "harmony without headers", HarmonyMarkup(), "Hello < there.", content="Hello < there."
    ),
]
recorded = pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.id)


@recorded
def test_the_answer_is_read_l3(case: Recorded) -> None:
    answer = WholeAnswer.of(parse(case.markup, TOOLS, [case.text], start=case.start))
    calls = tuple((call.name, msgspec.json.decode(call.arguments)) for call in answer.calls)
    assert (answer.content, answer.reasoning, calls) == (case.content, case.reasoning, case.calls)
    assert all(call.complete for call in answer.calls)


@recorded
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_give_the_same_events_l4_m1(case: Recorded, size: int) -> None:
    whole = parse(case.markup, TOOLS, [case.text], start=case.start)
    assert parse(case.markup, TOOLS, pieces(case.text, size), start=case.start) == whole


@recorded
def test_a_border_anywhere_gives_the_same_events_l4_m1_m2(case: Recorded) -> None:
    whole = parse(case.markup, TOOLS, [case.text], start=case.start)
    for at in range(len(case.text) + 1):
        parts = [case.text[:at], case.text[at:]]
        assert parse(case.markup, TOOLS, parts, start=case.start) == whole


@recorded
def test_a_cut_answer_is_a_beginning_of_the_whole_l5_h7(case: Recorded) -> None:
    whole = WholeAnswer.of(parse(case.markup, TOOLS, [case.text], start=case.start))
    for at in range(len(case.text)):
        events = parse(case.markup, TOOLS, [case.text[:at]], start=case.start, cut=True)
        answer = WholeAnswer.of(events)
        assert whole.content.startswith(answer.content)
        assert whole.reasoning.startswith(answer.reasoning)
        assert len(answer.calls) <= len(whole.calls)
        for call, full in zip(answer.calls, whole.calls, strict=False):
            assert call.name == full.name
            assert full.arguments.startswith(call.arguments)
            assert not call.complete or call.arguments == full.arguments
        assert all(call.complete for call in answer.calls[:-1])


@recorded
@pytest.mark.parametrize("cut", [True, False])
def test_a_cut_answer_is_the_same_in_pieces_l4_l5(case: Recorded, cut: bool) -> None:
    for at in range(0, len(case.text), 3):
        text = case.text[:at]
        whole = parse(case.markup, TOOLS, [text], start=case.start, cut=cut)
        assert parse(case.markup, TOOLS, pieces(text, 2), start=case.start, cut=cut) == whole


@recorded
def test_without_tools_calls_are_text(case: Recorded) -> None:
    answer = WholeAnswer.of(parse(case.markup, {}, [case.text], start=case.start))
    assert answer.calls == ()
    assert answer.reasoning == case.reasoning
    assert case.content.strip() in answer.content
