"""Which markup a model's answers have, told from its chat template and vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from headrace.actors.text.calls import CallFormat
from headrace.actors.text.formats import CALL_FORMATS
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import REASONING_MARKS, ReasoningMarks

# Whether the vocabulary has this text as one token.
HasToken: TypeAlias = Callable[[str], bool]

HARMONY = ("<|start|>", "<|channel|>", "<|message|>")
XTML = ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>")
# A format and what its templates contain, all of it; the first that fits is taken.
IN_TEMPLATES = (
    ("minimax_m2", ("<minimax:tool_call>",)),
    ("gemma4", ("<|tool_call>", "<tool_call|>")),
    ("function_gemma", ("<start_function_call>",)),
    ("longcat", ("<longcat_tool_call>",)),
    ("glm47", ("<arg_key>",)),
    ("pythonic", ("<|tool_list_start|>",)),
    ("pythonic", ("<|tool_call_start|>",)),
    ("qwen3_coder", ("<tool_call>", "<function=")),
    ("kimi_k2", ("<|tool_calls_section_begin|>",)),
    ("deepseek_dsml", ("｜DSML｜",)),
    ("deepseek", ("<｜tool▁call▁begin｜>",)),
    ("minicpm5", ('<function name="', '<param name="')),
    ("mistral", ("[TOOL_CALLS]",)),
    ("muse_spark", ("<atem:function_calls>",)),
    ("json_tools", ("<tool_call>",)),
    ("llama3", ("<|python_tag|>",)),
    ("llama3", ("<|start_header_id|>", '"parameters"')),
)
# Some conversions have the tokens and do not name them in the template.
IN_VOCABULARIES = (
    ("kimi_k3", XTML),
    ("pythonic", ("<|tool_call_start|>", "<|tool_call_end|>")),
)
# Models of these families may call a tool before they have closed the block. The marks are tokens
# of their own, which reasoning never quotes.
ENDS_REASONING = {
    "kimi_k2": ("<|tool_calls_section_begin|>",),
    "deepseek": ("<｜tool▁calls▁begin｜>",),
}


def choose_calls(template: str, has_token: HasToken) -> str | None:
    """The name of the format that a model writes its calls in, None if it seems to have none.
    Names are mlx-lm's where it has a parser for the family."""
    for name, texts in IN_TEMPLATES:
        if all(text in template for text in texts):
            return name
    for name, tokens in IN_VOCABULARIES:
        if all(map(has_token, tokens)):
            return name
    return None


def choose_reasoning(template: str, has_token: HasToken) -> ReasoningMarks | None:
    """The marks around a model's reasoning, None if it seems to have none."""
    for marks in REASONING_MARKS:
        if all(text in template or has_token(text) for text in marks.evidence):
            return marks
    return None


def choose_markup(
    template: str,
    has_token: HasToken,
    *,
    declared: str | None = None,
    parsed: Mapping[str, CallFormat] | None = None,
) -> Markup | None:
    """The grammar of a model's answers, None if they are plain text.

    `declared` is the format that the model's own settings name; `parsed` holds formats that are
    read by parsers from outside.
    """
    if all(text in template for text in HARMONY):
        return HarmonyMarkup()
    name = declared or choose_calls(template, has_token)
    calls = CALL_FORMATS.get(name or "") or (parsed or {}).get(name or "")
    reasoning = choose_reasoning(template, has_token)
    if reasoning is not None and calls is not None:
        reasoning = attrs.evolve(reasoning, ended_by=ENDS_REASONING.get(name or "", ()))
    return TaggedMarkup(reasoning, calls) if calls or reasoning else None
