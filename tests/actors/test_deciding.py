"""How a question reaches a model: one prompt for the state, a label for each option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.deciding import PLACE, Deciding
from headrace.actors.reading import Passage
from headrace.runtime.contracts import Prompt
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import DecisionRequest, Question
from headrace.runtime.testing import ScriptedTokenizer

YES_NO = Question("q", "Is it?", ("yes", "no"))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


class Thinking(ScriptedTokenizer):
    """Its template opens a block for thoughts, whatever it is told."""

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        return f"{super().render(prompt, tools)}<think>\n"


class Deaf(ScriptedTokenizer):
    """Its template leaves out what the user says."""

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        return "assistant: "


def passage(tokenizer: ScriptedTokenizer, state: str, *questions: Question) -> Passage:
    request = DecisionRequest("d", None, state, questions)
    (only,) = Deciding(tokenizer).build(request).passages
    return only


def text_of(tokenizer: ScriptedTokenizer, asked: Passage, number: int = 0) -> str:
    return tokenizer.text((*asked.tokens, *asked.continuations[number].tokens))


def test_the_prompt_ends_where_a_label_is_the_next_token() -> None:
    tokenizer = ScriptedTokenizer()
    asked = passage(tokenizer, "the state", YES_NO)
    head, tail = tokenizer.text(asked.tokens), tokenizer.text(asked.continuations[0].tokens)
    assert head.startswith("system: ")
    assert head.endswith("user: State:\nthe state\n")
    assert tail == "Question: Is it?\nOptions:\nA. yes\nB. no\nassistant: Answer: "
    assert tokenizer.text(asked.continuations[0].labels) == "AB"


def test_labels_may_be_tokens_that_begin_with_a_space() -> None:
    tokenizer = ScriptedTokenizer(words=[f" {chr(65 + n)}" for n in range(26)] + [" AA", " AC"])
    options = tuple(map(str, range(28)))
    asked = passage(tokenizer, "x", Question("q", "Which?", options))
    assert text_of(tokenizer, asked).endswith("assistant: Answer:")
    assert "\nZ. 25\nAA. 26\nAC. 27\n" in text_of(tokenizer, asked), "AB is no token"
    labels = asked.continuations[0].labels
    assert [tokenizer.text([label]) for label in labels[-2:]] == [" AA", " AC"]
    with pytest.raises(RequestError) as caught:
        passage(tokenizer, "x", Question("path", "Which?", (*options, "more")))
    assert (caught.value.code, caught.value.info.param) == (Code.TOO_MANY_OPTIONS, "path")


def test_thoughts_that_the_template_opens_are_closed() -> None:
    tokenizer = Thinking(
        template="{% if add_generation_prompt %}<think>\n{% endif %}</think>",
        special=["<think>", "</think>"],
    )
    text = text_of(tokenizer, passage(tokenizer, "x", YES_NO))
    opened = text.index("<think>")
    assert "</think>" in text[opened:]
    assert text.endswith("Answer: ")


def test_a_template_that_leaves_out_the_question_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        passage(Deaf(), "x", YES_NO)
    assert caught.value.code is Code.TEMPLATE_ERROR


@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_nothing_of_what_was_sent_is_lost_or_moved(state: str, asked: list[str]) -> None:
    tokenizer = ScriptedTokenizer()
    questions = [Question(str(n), text, ("a", "b")) for n, text in enumerate(asked)]
    built = passage(tokenizer, state, *questions)
    assert tokenizer.text(built.tokens).endswith(f"State:\n{state}\n")
    for number, text in enumerate(asked):
        shown = tokenizer.text(built.continuations[number].tokens)
        assert shown.startswith(f"Question: {text}\n" if text else "Question:\n")


def test_a_state_may_hold_our_own_mark() -> None:
    tokenizer = ScriptedTokenizer()
    built = passage(tokenizer, f"a {PLACE} b", YES_NO)
    assert tokenizer.text(built.tokens).endswith(f"a {PLACE} b\n")
