"""The formats that model families write their calls and their reasoning in.

Marks are those of the published chat templates. Where mlx-lm has a parser for a family the name
here is that parser's.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import regex

from headrace.actors.text.calls import CallFormat
from headrace.actors.text.calls_headed import HeadedCalls
from headrace.actors.text.calls_json import JsonCalls
from headrace.actors.text.calls_tagged import tagged
from headrace.actors.text.gemma_value import FunctionGemmaReader, Gemma4Reader

HERMES = JsonCalls(
    openers=("<tool_call>",),
    closers=("</tool_call>",),
    close=regex.compile("(?=</tool_call>)"),
)

LLAMA3 = JsonCalls(openers=("<|python_tag|>",), bare=True)

MISTRAL_NAME = r"\s{0,64}(?P<name>[\w.-]{1,128})\s{0,64}(?:\[CALL_ID\][\w-]{1,64})?"
MISTRAL = HeadedCalls(
    openers=("[TOOL_CALLS]",),
    header=regex.compile(MISTRAL_NAME + r"(?:\[ARGS\]|(?=\{))"),
    again=regex.compile(MISTRAL_NAME + r"\[ARGS\]"),
    close=regex.compile(r"(?=\[TOOL_CALLS\])"),
    listed=JsonCalls(openers=(), array=True),
)

# V3 and R1 write the call's type first, V3.1 does not.
DEEPSEEK = HeadedCalls(
    openers=("<｜tool▁call▁begin｜>",),
    sections=("<｜tool▁calls▁begin｜>",),
    closers=("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"),
    header=regex.compile(
        r"function<｜tool▁sep｜>(?P<name>[\w.-]{1,128})\s{1,64}```(?:json)?\s"
        r"|(?P<name>[\w.-]{1,128})<｜tool▁sep｜>(?=\s{0,64}[{\"])"
    ),
    close=regex.compile(r"(?=(?:\n```)?<｜tool▁call▁end｜>)"),
)

DEEPSEEK_DSML = tagged(
    opener='<｜DSML｜invoke name="',
    header=r'(?P<name>[^"]{1,128})"[^>]{0,64}>',
    value=r'<｜DSML｜parameter name="(?P<key>[^"]{1,256})"'
    r'(?:\s{1,16}string="(?P<string>true|false)")?[^>]{0,64}>',
    value_start="<｜DSML｜parameter",
    value_close="</｜DSML｜parameter>",
    close="</｜DSML｜invoke>",
    section=("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
)

KIMI_K2 = HeadedCalls(
    openers=("<|tool_call_begin|>",),
    sections=("<|tool_calls_section_begin|>",),
    closers=("<|tool_call_end|>", "<|tool_calls_section_end|>"),
    header=regex.compile(
        r"\s{0,64}(?:functions\.)?(?P<name>[\w.-]{1,128}?)(?::\d{1,9})?\s{0,64}"
        r"<\|tool_call_argument_begin\|>"
    ),
    close=regex.compile(r"(?=<\|tool_call_end\|>)"),
)

GLM = tagged(
    opener="<tool_call>",
    header=r"\s{0,64}(?P<name>[^\s<>{]{1,128})\s{0,64}(?=<arg_key>|</tool_call>|\{)",
    value=r"<arg_key>(?P<key>[^<]{1,256})</arg_key>(?:\\n|\s){0,64}<arg_value>",
    value_start="<arg_key>",
    value_close="</arg_value>",
    close="</tool_call>",
)

LONGCAT = tagged(
    opener="<longcat_tool_call>",
    header=r"\s{0,64}(?P<name>[^\s<>{]{1,128})\s{0,64}"
    r"(?=<longcat_arg_key>|</longcat_tool_call>|\{)",
    value=r"<longcat_arg_key>(?P<key>[^<]{1,256})</longcat_arg_key>(?:\\n|\s){0,64}"
    r"<longcat_arg_value>",
    value_start="<longcat_arg_key>",
    value_close="</longcat_arg_value>",
    close="</longcat_tool_call>",
)

QWEN3_CODER = tagged(
    opener="<function=",
    header=r"\s{0,16}(?P<name>[^\s<>]{1,128})\s{0,16}>",
    value=r"<parameter=\s{0,16}(?P<key>[^>]{1,256})>",
    value_start="<parameter=",
    value_close="</parameter>",
    close="</function>",
    section=("<tool_call>", "</tool_call>"),
    lines=True,
)

MINIMAX_M2 = tagged(
    opener="<invoke name=",
    header=r"(?P<name>[^\s<>]{1,128})\s{0,16}>",
    value=r"<parameter name=[\"']?(?P<key>[^>\"']{1,256})[\"']?\s{0,16}>",
    value_start="<parameter name=",
    value_close="</parameter>",
    close="</invoke>",
    section=("<minimax:tool_call>", "</minimax:tool_call>"),
    lines=True,
)

MUSE_SPARK = tagged(
    opener="<atem:invoke name=",
    header=r"(?P<name>[^\s<>]{1,128})\s{0,16}>",
    value=r"<atem:parameter name=\"(?P<key>[^\"]{1,256})\"[^>]{0,64}>",
    value_start="<atem:parameter",
    value_close="</atem:parameter>",
    close="</atem:invoke>",
    section=("<atem:function_calls>", "</atem:function_calls>"),
)

GEMMA_HEADER = regex.compile(r"\s{0,64}call:(?P<name>[\w.-]{1,128})(?=\{)")
FUNCTION_GEMMA = HeadedCalls(
    openers=("<start_function_call>",),
    closers=("<end_function_call>",),
    header=GEMMA_HEADER,
    again=GEMMA_HEADER,
    close=regex.compile("(?=<end_function_call>)"),
    values=FunctionGemmaReader,
)
GEMMA4 = attrs.evolve(
    FUNCTION_GEMMA,
    openers=("<|tool_call>",),
    closers=("<tool_call|>",),
    close=regex.compile(r"(?=<tool_call\|>)"),
    values=Gemma4Reader,
)

CALL_FORMATS: Mapping[str, CallFormat] = {
    "json_tools": HERMES,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "deepseek": DEEPSEEK,
    "deepseek_dsml": DEEPSEEK_DSML,
    "kimi_k2": KIMI_K2,
    "glm47": GLM,
    "laguna": GLM,
    "longcat": LONGCAT,
    "qwen3_coder": QWEN3_CODER,
    "minimax_m2": MINIMAX_M2,
    "muse_spark": MUSE_SPARK,
    "function_gemma": FUNCTION_GEMMA,
    "gemma4": GEMMA4,
}

# What else a vocabulary may have as special tokens that stand within a call.
INNER_MARKS = (
    "[ARGS]",
    "[CALL_ID]",
    "<｜tool▁sep｜>",
    "<|tool_call_argument_begin|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<longcat_arg_key>",
    "</longcat_arg_key>",
    "<longcat_arg_value>",
    "</longcat_arg_value>",
    "<parameter=",
    "</parameter>",
    "</function>",
    '<｜DSML｜parameter name="',
    "</｜DSML｜parameter>",
    "</｜DSML｜invoke>",
    "<parameter name=",
    "</invoke>",
    "<atem:parameter name=",
    "</atem:parameter>",
    "</atem:invoke>",
    '<param name="',
    "</param>",
    "<escape>",
    '<|"|>',
)
