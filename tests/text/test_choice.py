"""The markup of a model is told from its template and vocabulary, as mlx-lm tells it."""

from __future__ import annotations

import pytest

from headrace.actors.text import formats
from headrace.actors.text.calls_parsed import ParsedCalls
from headrace.actors.text.choice import (
    IN_TEMPLATES,
    XTML,
    choose_calls,
    choose_markup,
    choose_reasoning,
)
from headrace.actors.text.formats import CALL_FORMATS
from headrace.actors.text.harmony import HarmonyMarkup
from headrace.actors.text.markup import TaggedMarkup
from headrace.actors.text.reasoning import THINK

NONE = frozenset[str]()


@pytest.mark.parametrize(("name", "texts"), IN_TEMPLATES)
def test_a_template_with_all_texts_is_that_format(name: str, texts: tuple[str, ...]) -> None:
    assert choose_calls("... {{ tool_call.name }} " + " ".join(texts), NONE.__contains__) == name


def test_tokens_decide_where_the_template_is_silent() -> None:
    assert choose_calls("{{ messages }}", frozenset(XTML).__contains__) == "kimi_k3"
    assert choose_calls("{{ messages }}", NONE.__contains__) is None


def test_every_format_of_ours_can_be_chosen() -> None:
    # Laguna's converted models declare their format; its texts are GLM's.
    assert {name for name, _ in IN_TEMPLATES} >= CALL_FORMATS.keys() - {"laguna"}


def test_a_block_is_known_by_its_tokens_or_by_the_template() -> None:
    tokens = frozenset({"<think>", "</think>"})
    assert choose_reasoning("", tokens.__contains__) == THINK
    assert choose_reasoning("<think>{{ x }}</think>", NONE.__contains__) == THINK
    assert choose_reasoning("<think>", NONE.__contains__) is None
    gemma = choose_reasoning("<|channel>thought\n<channel|>", NONE.__contains__)
    assert gemma is not None
    assert gemma.open == "<|channel>thought"


def test_a_model_without_any_markup_has_no_grammar() -> None:
    assert choose_markup("{{ messages }}", NONE.__contains__) is None


def test_markup_is_put_together() -> None:
    template = "<think></think><tool_call>"
    assert choose_markup(template, NONE.__contains__) == TaggedMarkup(THINK, formats.HERMES)
    declared = choose_markup(template, NONE.__contains__, declared="laguna")
    assert declared == TaggedMarkup(THINK, formats.GLM)
    harmony = "<|start|>assistant<|channel|>final<|message|>"
    assert choose_markup(harmony, NONE.__contains__) == HarmonyMarkup()


def test_a_call_may_end_the_block_where_its_mark_is_a_token() -> None:
    markup = choose_markup("<think></think><|tool_calls_section_begin|>", NONE.__contains__)
    assert isinstance(markup, TaggedMarkup)
    assert markup.reasoning is not None
    assert markup.reasoning.ended_by == ("<|tool_calls_section_begin|>",)


def test_formats_read_from_outside_are_used_where_there_are_none_of_ours() -> None:
    outside = ParsedCalls(("<|tool_call_start|>",), formats.HERMES.close, lambda text, tools: [])
    template = "<|tool_call_start|>"
    assert choose_markup(template, NONE.__contains__) is None
    markup = choose_markup(template, NONE.__contains__, parsed={"pythonic": outside})
    assert markup == TaggedMarkup(None, outside)
