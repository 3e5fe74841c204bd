"""The grammar of one whole answer: reasoning if there is any, then calls or the value asked for.

That an answer's form begins after its reasoning is part of the grammar. So it holds for the very
next token, also where a token is sampled before the last one has been looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from headrace.actors.grammar import calls, gemma, tagged
from headrace.actors.grammar.calls import CallWriter, CannotWrite
from headrace.actors.grammar.harmony import harmony
from headrace.actors.grammar.lark import LINE_BREAKS, Rules, Special, either
from headrace.actors.grammar.reading import Unenforced
from headrace.actors.grammar.value import grammar_text
from headrace.actors.grammar.wanted import Wanted, wanted
from headrace.actors.text.formats import CALL_FORMATS, HERMES
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import Markup, TaggedMarkup
from headrace.actors.text.reasoning import ReasoningMarks, Start
from headrace.runtime.constraints import Constraint, Grammar
from headrace.runtime.contracts import ToolUse

WRITERS: Mapping[str, CallWriter] = {
    "json_tools": calls.HERMES,
    "llama3": calls.LLAMA3,
    "deepseek": calls.DEEPSEEK,
    "deepseek_dsml": tagged.DEEPSEEK_DSML,
    "kimi_k2": calls.KIMI_K2,
    "glm47": tagged.GLM,
    "longcat": tagged.LONGCAT,
    "qwen3_coder": tagged.QWEN3_CODER,
    "minimax_m2": tagged.MINIMAX_M2,
    "muse_spark": tagged.MUSE_SPARK,
    "function_gemma": gemma.FUNCTION_GEMMA,
    "gemma4": gemma.GEMMA4,
}


@attrs.frozen
class AnswerForm:
    """What an answer is held to, and the markup that it is then to be read by.

    `unenforced` are assertions of the tools' schemas that were left out.
    """

    grammar: Grammar
    markup: Markup | None
    unenforced: tuple[Unenforced, ...] = ()


def answer_form(
    constraint: Constraint | None,
    tools: ToolUse | None,
    markup: Markup | None,
    start: Start,
    special: Special,
) -> AnswerForm | None:
    """None for an answer that may be anything.

    `markup` is the model's own, `start` the state that the prompt leaves it in; `special` tells
    the tokens that never stand for text. Raises `RequestError` (invalid_schema, invalid_grammar).
    """
    asked = wanted(constraint, tools)
    if asked is None:
        return None
    if isinstance(markup, HarmonyMarkup):
        rules = Rules(special)
        return _form(asked, rules, harmony(rules, asked, start), markup)
    marks = markup.reasoning if isinstance(markup, TaggedMarkup) else None
    for writer, reader in _ways(asked, markup, special):
        rules = Rules(special)
        try:
            body = _body(rules, asked, writer)
        except CannotWrite:
            continue
        return _form(asked, rules, _after_reasoning(rules, marks, start, body), reader)
    return None


def _form(asked: Wanted, rules: Rules, start: str, markup: Markup | None) -> AnswerForm:
    own = None if asked.value is None else asked.value.own
    param = None if asked.value is None else asked.value.param
    text = grammar_text(rules.text(start), own)
    left_out = tuple(part for tool in asked.tools for part in tool.arguments.unenforced)
    return AnswerForm(Grammar(text, asked.suspects, asked.code, param), markup, left_out)


def _ways(
    asked: Wanted, markup: Markup | None, special: Special
) -> Iterator[tuple[CallWriter, Markup | None]]:
    """The ways to write calls, the model's own first, and the markup that reads them."""
    own = markup if isinstance(markup, TaggedMarkup) else TaggedMarkup()
    for name, form in CALL_FORMATS.items():
        if form is own.calls and (writer := _writer(name, special)) is not None:
            yield writer, markup
            break
    # A model that is free to call or not would not do so in a way that it has not learned.
    if asked.mode != "free":
        yield calls.HERMES, attrs.evolve(own, calls=HERMES) if asked.tools else markup


def _writer(name: str, special: Special) -> CallWriter | None:
    if name == "mistral":
        named = special("[ARGS]") is not None
        return calls.MISTRAL_NAMES if named else calls.MISTRAL_LIST
    return WRITERS.get(name)


def _body(rules: Rules, asked: Wanted, writer: CallWriter) -> str:
    value = [] if asked.value is None else [asked.value.write(rules)]
    if asked.mode == "value":
        return value[0]
    if asked.mode == "free":
        return _text_with_calls(rules, asked, writer)
    return either([writer.calls(rules, asked.tools, several=asked.several), *value])


def _text_with_calls(rules: Rules, asked: Wanted, writer: CallWriter) -> str:
    """Any text; where a call is opened in it, that call is held to its form."""
    if writer.opener is None:
        called = writer.calls(rules, asked.tools, several=asked.several)
        return f'{called} | "" | /[^{{](?s:.*)/'
    opened = writer.calls(rules, asked.tools, several=False, opened=True)
    part = rules.add(f"{rules.until(writer.opener)} {opened}")
    rest = rules.without(writer.opener)
    return f"{part}{{0,{calls.MOST_CALLS}}} {rest}" if asked.several else f"{part} | {rest}"


def _after_reasoning(rules: Rules, marks: ReasoningMarks | None, start: Start, body: str) -> str:
    if marks is None or start == "after":
        return body
    block = f"{rules.until(marks.close)} {LINE_BREAKS}"
    if start == "before":
        block = f"({rules.literal([marks.open])} {block})?"
    return f"{block} {rules.add(body)}"
