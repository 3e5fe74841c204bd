"""The same calls as mlx-lm's own parsers read, on what those parsers can read."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
import regex

from headrace.actors.text.calls import CallFormat
from headrace.actors.text.calls_parsed import ParsedCalls
from headrace.actors.text.choice import choose_calls
from headrace.actors.text.formats import CALL_FORMATS
from headrace.actors.text.markup import TaggedMarkup
from headrace.runtime.testing.answers import WholeAnswer, parse, pieces

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "map": {"type": "object"},
    },
}
TOOLS = {"weather": SCHEMA, "files": {"type": "object", "properties": {}}}

JSON_CALL = (
    '{"name": "weather", "arguments": {"city": "Oslo \\"x\\"", "days": 3, "list": [1, "a"]}}'
)
# What stands between a family's marks, as its template writes it.
BODIES = [
    ("json_tools", f"\n{JSON_CALL}\n"),
    ("mistral", f"[{JSON_CALL}, {{'name': 'files', 'arguments': {{}}}}]".replace("'", '"')),
    ("mistral", 'weather[ARGS]{"city": "Oslo", "days": 3}files[ARGS]{}'),
    (
        "glm47",
        "weather\n<arg_key>city</arg_key>\n<arg_value>Oslo\n3</arg_value>\n<arg_key>days</arg_key>\n"
        '<arg_value>3</arg_value>\n<arg_key>map</arg_key>\n<arg_value>{"a": [true]}</arg_value>\n',
    ),
    ("glm47", "files\n"),
    (
        "longcat",
        "weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>7</longcat_arg_value>\n"
        "<longcat_arg_key>flag</longcat_arg_key>\n<longcat_arg_value>true</longcat_arg_value>\n",
    ),
    (
        "qwen3_coder",
        "\n<function=weather>\n<parameter=city>\nOslo\n  <b>\n</parameter>\n<parameter=days>\n3.0\n"
        "</parameter>\n<parameter=ratio>\n0.5\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n"
        "<parameter=list>\n['a', 1]\n</parameter>\n</function>",
    ),
    ("qwen3_coder", "\n<function=files>\n</function>"),
    (
        "minimax_m2",
        '\n<invoke name="weather">\n<parameter name="city">Oslo</parameter>\n'
        '<parameter name="days">3</parameter>\n<parameter name="map">{"a": 1}</parameter>\n'
        "</invoke>\n"
        '<invoke name="files">\n</invoke>\n',
    ),
    (
        "muse_spark",
        '\n<atem:invoke name="weather">\n<atem:parameter name="city">Oslo</atem:parameter>\n'
        '<atem:parameter name="list">[1, 2]</atem:parameter>\n</atem:invoke>\n',
    ),
    (
        "kimi_k2",
        "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
        '{"city": "Oslo", "days": 3}'
        "<|tool_call_end|><|tool_call_begin|>functions.files:1<|tool_call_argument_begin|>{}"
        "<|tool_call_end|>",
    ),
    ("function_gemma", "call:weather{city:<escape>Oslo, x<escape>,days:3,flag:true}"),
    ("gemma4", 'call:weather{city:<|"|>Oslo {x}<|"|>,days:3,map:{a:{b:<|"|>c<|"|>}},list:[1,2]}'),
    ("pythonic", '[weather(city="Oslo", days=3, map={"a": true}), files()]'),
    (
        "minicpm5",
        '"weather"><param name="city"><![CDATA[Oslo <b>]]></param><param name="days">3</param>',
    ),
    (
        "kimi_k3",
        '<|open|>call tool="weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>'
        '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
        "<|close|>call<|sep|>",
    ),
]


def module_of(name: str) -> Any:
    return importlib.import_module(f"mlx_lm.tool_parsers.{name}")


def format_of(name: str) -> CallFormat:
    if name in CALL_FORMATS:
        return CALL_FORMATS[name]
    module = module_of(name)
    close = regex.compile(regex.escape(module.tool_call_end))
    return ParsedCalls((module.tool_call_start,), close, module.parse_tool_call)


@pytest.mark.parametrize(("name", "body"), BODIES)
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_the_same_calls(name: str, body: str, size: int) -> None:
    module = module_of(name)
    tools = [
        {"type": "function", "function": {"name": tool, "parameters": schema}}
        for tool, schema in TOOLS.items()
    ]
    theirs = module.parse_tool_call(body, tools)
    text = module.tool_call_start + body + module.tool_call_end
    answer = WholeAnswer.of(parse(TaggedMarkup(None, format_of(name)), TOOLS, pieces(text, size)))
    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [
        (call["name"], call["arguments"])
        for call in (theirs if isinstance(theirs, list) else [theirs])
    ]
    assert answer.content == ""


class Tokenizer:
    """As much of a tokenizer as mlx-lm's choice looks at."""

    def __init__(self, template: str) -> None:
        self.chat_template = template

    def get_vocab(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    "template",
    [
        "<minimax:tool_call>",
        "<|tool_call> <tool_call|>",
        "<start_function_call>",
        "<longcat_tool_call>",
        "<tool_call> <arg_key>",
        "<|tool_list_start|>",
        "<tool_call>\\n<function=",
        "<|tool_calls_section_begin|>",
        '<function name=" <param name="',
        "[TOOL_CALLS]",
        "<atem:function_calls>",
        "<tool_call> {{ tool_call.name }}",
        "{{ messages }}",
    ],
)
def test_the_same_choice(template: str) -> None:
    tokenizer_utils = importlib.import_module("mlx_lm.tokenizer_utils")
    theirs = tokenizer_utils._infer_tool_parser(Tokenizer(template))
    assert choose_calls(template, lambda text: False) == theirs
