"""Calls with any arguments, written as each family's template writes them, are read back exactly,
however the text is cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.actors.text import formats
from headrace.actors.text.calls import CallFormat
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.runtime.testing.answers import WholeAnswer, parse

Call: TypeAlias = tuple[str, dict[str, Any]]

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": ["integer", "string"]}},
        "more": {"type": "object"},
    },
}
TOOLS = {"one": SCHEMA, "two": SCHEMA}

# Parts of every format's markup, and of its neighbours'.
SHARDS = [
    "</tool_call>", "<tool_call>", "</parameter>", "<parameter=a>", "</function>", "<function=one>",
    "</arg_value>", "<arg_key>", "</arg_value>\n", "[TOOL_CALLS]", "one[ARGS]{}", "<|call|>",
    "<｜tool▁call▁end｜>", "</｜DSML｜parameter>", "<|tool_call_end|>", "<tool_call|>", '<|"|>',
    "<escape>", "</think>", "<|python_tag|>", '"', "'", "\\", "\n", "\t", " ", "{", "}", "[", "]",
    ",", ":", "<", ">", "null", "nul", "true", "3", "3.0", "é", "日本", "👩‍👧", "x", "```",
    "\\n", "\x01",
]  # fmt: skip
nasty = st.lists(st.sampled_from(SHARDS), max_size=6).map("".join)
plain = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
anything = st.recursive(
    st.none() | st.booleans() | numbers | nasty | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=6,
)


def calls_with(strings: st.SearchStrategy[str], more: st.SearchStrategy[Any]) -> Any:
    arguments = st.fixed_dictionaries(
        {},
        optional={
            "text": strings,
            "note": strings.filter(lambda text: text.strip().lower() not in ("null", "none")),
            "count": st.integers(-(10**12), 10**12),
            "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "flag": st.booleans(),
            "items": st.lists(st.integers(-99, 99) | strings, max_size=3),
            "more": st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), more, max_size=3),
        },
    )
    return st.lists(st.tuples(st.sampled_from(["one", "two"]), arguments), min_size=1, max_size=3)


@attrs.frozen
class Writer:
    id: str
    markup: Markup
    write: Callable[[list[Call]], str]
    # Values that the format can carry without being ambiguous.
    allows: Callable[[str], bool] = lambda text: True


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def each(pattern: str, *, between: str = "", before: str = "", after: str = "") -> Any:
    def write(calls: list[Call]) -> str:
        texts = [
            pattern.replace("@NAME", name).replace("@ARGS", dumps(arguments))
            for name, arguments in calls
        ]
        return before + between.join(texts) + after

    return write


def tags(
    call: tuple[str, str], value: tuple[str, str], *, before: str = "", after: str = ""
) -> Callable[[list[Call]], str]:
    def write(calls: list[Call]) -> str:
        text = before
        for name, arguments in calls:
            text += call[0].replace("NAME", name)
            for key, item in arguments.items():
                shown = item if isinstance(item, str) else dumps(item)
                text += value[0].replace("KEY", key) + shown + value[1]
            text += call[1]
        return text + after

    return write


def gemma(quote: str, before: str, after: str) -> Callable[[list[Call]], str]:
    def value(item: Any) -> str:
        match item:
            case str():
                return quote + item + quote
            case dict():
                return "{" + ",".join(f"{key}:{value(it)}" for key, it in item.items()) + "}"
            case list():
                return "[" + ",".join(map(value, item)) + "]"
            case _:
                return dumps(item)

    def write(calls: list[Call]) -> str:
        return "".join(f"{before}call:{name}{value(args)}{after}" for name, args in calls)

    return write


def without(*parts: str) -> Callable[[str], bool]:
    return lambda text: not any(part in text for part in parts)


def tagged(form: CallFormat) -> Markup:
    return TaggedMarkup(None, form)


OBJECT = '{"name": "@NAME", "arguments": @ARGS}'
FLIPPED = '{"arguments": @ARGS, "name": "@NAME"}'
WRITERS = [
    Writer("hermes", tagged(formats.HERMES), each(f"<tool_call>\n{OBJECT}\n</tool_call>\n")),
    Writer("hermes flipped", tagged(formats.HERMES), each(f"<tool_call>{FLIPPED}</tool_call>")),
    Writer(
        "llama3",
        tagged(formats.LLAMA3),
        each(OBJECT.replace("arguments", "parameters"), between="; ", before="<|python_tag|>"),
    ),
    Writer(
        "mistral list",
        tagged(formats.MISTRAL),
        each(OBJECT, between=", ", before="[TOOL_CALLS] [", after="]"),
    ),
    Writer("mistral", tagged(formats.MISTRAL), each("[TOOL_CALLS]@NAME[ARGS]@ARGS")),
    Writer(
        "deepseek v3",
        tagged(formats.DEEPSEEK),
        each(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>@NAME\n```json\n@ARGS\n```<｜tool▁call▁end｜>",
            between="\n",
            before="<｜tool▁calls▁begin｜>",
            after="<｜tool▁calls▁end｜>",
        ),
    ),
    Writer(
        "deepseek v3.1",
        tagged(formats.DEEPSEEK),
        each(
            "<｜tool▁call▁begin｜>@NAME<｜tool▁sep｜>@ARGS<｜tool▁call▁end｜>",
            before="<｜tool▁calls▁begin｜>",
            after="<｜tool▁calls▁end｜>",
        ),
    ),
    Writer(
        "kimi k2",
        tagged(formats.KIMI_K2),
        each(
            "<|tool_call_begin|>functions.@NAME:0<|tool_call_argument_begin|>@ARGS<|tool_call_end|>"
        ),
    ),
    Writer(
        "harmony",
        HarmonyMarkup(),
        each(
            "<|channel|>commentary to=functions.@NAME <|constrain|>json<|message|>@ARGS<|call|>",
            between="<|start|>assistant",
        ),
    ),
    Writer(
        "glm",
        tagged(formats.GLM),
        tags(
            ("<tool_call>NAME\n", "</tool_call>\n"),
            ("<arg_key>KEY</arg_key>\n<arg_value>", "</arg_value>\n"),
        ),
        without("</arg_value>"),
    ),
    Writer(
        "qwen3 coder",
        tagged(formats.QWEN3_CODER),
        tags(
            ("<tool_call>\n<function=NAME>\n", "</function>\n</tool_call>\n"),
            ("<parameter=KEY>\n", "\n</parameter>\n"),
        ),
        without("</parameter>"),
    ),
    Writer(
        "minimax m2",
        tagged(formats.MINIMAX_M2),
        tags(
            ('<invoke name="NAME">\n', "</invoke>\n"),
            ('<parameter name="KEY">\n', "\n</parameter>\n"),
            before="<minimax:tool_call>\n",
            after="</minimax:tool_call>",
        ),
        without("</parameter>"),
    ),
    Writer(
        "deepseek v3.2",
        tagged(formats.DEEPSEEK_DSML),
        tags(
            ('<｜DSML｜invoke name="NAME">\n', "</｜DSML｜invoke>\n"),
            ('<｜DSML｜parameter name="KEY">', "</｜DSML｜parameter>\n"),
            before="<｜DSML｜function_calls>\n",
            after="</｜DSML｜function_calls>",
        ),
        without("</｜DSML｜parameter>"),
    ),
    Writer(
        "function gemma",
        tagged(formats.FUNCTION_GEMMA),
        gemma("<escape>", "<start_function_call>", "<end_function_call>"),
        without("<escape>"),
    ),
    Writer(
        "gemma 4",
        tagged(formats.GEMMA4),
        gemma('<|"|>', "<|tool_call>", "<tool_call|>"),
        without('<|"|>'),
    ),
]


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.id)
@settings(max_examples=25)
@given(data=st.data())
def test_arguments_come_back_as_they_were_l4_l9(writer: Writer, data: st.DataObject) -> None:
    strings = (nasty | plain).filter(writer.allows)
    more = anything.filter(lambda value: writer.allows(dumps(value)) and "gemma" not in writer.id)
    if "gemma" in writer.id:
        more = strings | st.integers() | st.booleans() | st.lists(strings, max_size=2)
    calls = data.draw(calls_with(strings, more))
    text = writer.write(calls)
    borders = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    parts = [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]
    answer = WholeAnswer.of(parse(writer.markup, TOOLS, parts))
    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == calls
    assert (answer.content, all(call.complete for call in answer.calls)) == ("", True)
    single = WholeAnswer.of(parse(writer.markup, TOOLS, list(text)))
    assert single == answer
