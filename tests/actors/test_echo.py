"""A prompt told back before its answer: as text, token by token, with scores or without."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from headrace.actors.answering import Answering
from headrace.actors.echo import Echo
from headrace.actors.row import Row
from headrace.runtime.contracts import (
    Accepted,
    Delta,
    Event,
    Finished,
    InferenceRequest,
    Prompt,
    Sampling,
    ScoredToken,
    Usage,
)
from headrace.runtime.ports import PromptScores, TokenScores
from headrace.runtime.testing import Script, ScriptedModel
from headrace.runtime.testing.runtime import Answer, ask
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.tokens import ScriptedTokenizer


def echo_of(prompt: Prompt, tokenizer: ScriptedTokenizer | None = None) -> Echo:
    tokenizer = tokenizer or ScriptedTokenizer()
    return Echo.of(prompt, tokenizer.build(prompt), tokenizer)


@given(st.text(min_size=1))
def test_a_text_comes_back_as_it_was_and_its_tokens_make_it_up(text: str) -> None:
    echo = echo_of(Prompt(text=text))
    assert "".join(echo.texts) == text
    assert b"".join(echo.raw) == text.encode()
    assert echo.held == ()


@given(st.lists(st.integers(0, 255), min_size=1))
def test_ids_come_back_as_their_text_but_for_an_unfinished_character(ids: list[int]) -> None:
    echo = echo_of(Prompt(tokens=tuple(ids)))
    assert b"".join(echo.raw) == bytes(ids)
    rest = bytes(echo.held)
    assert "".join(echo.texts) + rest.decode(errors="replace") == bytes(ids).decode(
        errors="replace"
    )
    assert len(echo.raw) == len(echo.texts) == len(ids)


def test_special_tokens_have_their_names() -> None:
    tokenizer = ScriptedTokenizer(special=("<s>", "<end>"))
    begin, end = tokenizer.special_tokens["<s>"], tokenizer.special_tokens["<end>"]
    echo = echo_of(Prompt(tokens=(begin, ord("a"), end)), tokenizer)
    assert echo.texts == ("<s>", "a", "<end>")
    assert echo.raw == (b"<s>", b"a", b"<end>")


class Beginning(ScriptedTokenizer):
    """It begins every document with a token of its own, and every text with a space."""

    def __init__(self) -> None:
        super().__init__(special=("<s>",))

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        return (self.special_tokens["<s>"], *self.encode(f" {prompt.text}"))


def test_what_the_tokenizer_adds_by_itself_is_no_text_of_the_clients() -> None:
    echo = echo_of(Prompt(text="ab"), Beginning())
    assert echo.raw == (b"", b"", b"a", b"b")
    assert "".join(echo.texts) == "ab"
    assert len(echo.texts) == 4


# ---- in a runtime -------------------------------------------------------------------------


def asking(prompt: Prompt, **fields: Any) -> InferenceRequest:
    fields = {"max_tokens": 3, "echo": True} | fields
    return InferenceRequest("r", None, prompt, Sampling(seed=1), **fields)


HELLO = Prompt(tokens=tuple(b"Hello"))


def scored(events: tuple[Event, ...], choice: int = 0) -> list[ScoredToken]:
    deltas = [e for e in events if isinstance(e, Delta) and e.choice == choice]
    return [token for delta in deltas for token in delta.scored]


async def answer_to(request: InferenceRequest, script: str = "abc", **model: Any) -> Answer:
    scripted = ScriptedModel(scripts={"": Script(script)}, **model)
    async with open_scene(scripted) as scene:
        answer = await ask(scene.runtime, request)
        scene.baseline.check()
        return answer


async def test_ids_are_told_first_and_as_no_token_of_the_answers(
    autojump_clock: MockClock,
) -> None:
    answer = await answer_to(asking(HELLO))
    assert isinstance(answer.events[0], Accepted)
    assert answer.events[1] == Delta("Hello", 0)
    assert answer.text == "Helloabc"
    assert isinstance(answer.end, Finished)
    assert answer.end.usage == Usage(5, 3)


@pytest.mark.parametrize("prompt", [Prompt(text="Hello"), HELLO], ids=["text", "ids"])
async def test_with_scores_every_token_of_the_prompt_has_an_entry_f9(
    autojump_clock: MockClock, prompt: Prompt
) -> None:
    answer = await answer_to(asking(prompt, logprobs=2))
    assert answer.text == "Helloabc"
    tokens = scored(answer.events)
    assert [token.chosen.raw for token in tokens] == [bytes([b]) for b in b"Helloabc"]
    assert [token.chosen.logprob for token in tokens] == [
        None,
        *[-(1 + byte) / 256 for byte in b"elloabc"],
    ]
    assert [len(token.top) for token in tokens] == [0, *[2] * 7]


async def test_nothing_need_be_said_for_a_prompt_to_be_scored_f9(
    autojump_clock: MockClock,
) -> None:
    answer = await answer_to(asking(HELLO, logprobs=0, max_tokens=0))
    assert (answer.text, len(scored(answer.events))) == ("Hello", 5)
    assert isinstance(answer.end, Finished)
    assert (answer.end.reason, answer.end.usage) == ("length", Usage(5, 0))


@pytest.mark.parametrize("logprobs", [None, 1])
async def test_a_prompt_of_one_token_has_no_score(
    autojump_clock: MockClock, logprobs: int | None
) -> None:
    for cap in (0, 2):
        request = asking(Prompt(tokens=(65,)), logprobs=logprobs, max_tokens=cap)
        answer = await answer_to(request)
        assert answer.text == "A" + "abc"[:cap]
        if logprobs is not None:
            assert scored(answer.events)[0].chosen.logprob is None


async def test_each_answer_has_the_prompt_before_it(autojump_clock: MockClock) -> None:
    for cap, said in ((0, ""), (3, "abc")):
        answer = await answer_to(asking(HELLO, n=3, logprobs=0, max_tokens=cap))
        for choice in range(3):
            deltas = [e for e in answer.events if isinstance(e, Delta) and e.choice == choice]
            assert "".join(delta.text for delta in deltas) == f"Hello{said}"
            assert len(scored(answer.events, choice)) == 5 + len(said)


async def test_a_long_prompt_is_told_chunk_by_chunk(autojump_clock: MockClock) -> None:
    prompt = Prompt(text="x" * 2000)
    answer = await answer_to(asking(prompt, logprobs=0))
    assert answer.text == "x" * 2000 + "abc"
    assert len(scored(answer.events)) == 2003
    # The sink joins what is not read at once, so the answer alone does not show the chunks.


async def test_a_character_that_the_answer_completes_is_told_once(
    autojump_clock: MockClock,
) -> None:
    first, rest = "é".encode()[:1], "é".encode()[1:]
    prompt = Prompt(tokens=tuple(b"x" + first))
    model = ScriptedModel(scripts={"": Script((*rest, ord("!")))})
    for logprobs in (None, 0):
        async with open_scene(model) as scene:
            answer = await ask(scene.runtime, asking(prompt, logprobs=logprobs))
            assert answer.text == "xé!"
            cut = await ask(scene.runtime, asking(prompt, logprobs=logprobs, max_tokens=0))
            assert cut.text == "x\ufffd"


async def test_a_prompt_may_be_computed_for_nothing(autojump_clock: MockClock) -> None:
    answer = await answer_to(attrs.evolve(asking(Prompt(text="Hello"), max_tokens=0), echo=False))
    assert answer.text == ""
    assert isinstance(answer.end, Finished)
    assert (answer.end.reason, answer.end.usage) == ("length", Usage(5, 0))


def test_what_is_scored_anew_is_told_once() -> None:
    tokenizer = ScriptedTokenizer()
    request = asking(HELLO, logprobs=0)
    row = Row("t", request, Answering(tokenizer, {}).build(request))
    row.begin([1], 3, tokenizer)
    scores = [TokenScores(-float(at)) for at in range(5)]
    parts = [(1, 2), (1, 3), (3, 5), (2, 5)]
    events = [
        event
        for first, end in parts
        for event in row.on_prompt_scores(PromptScores(1, tuple(scores[first:end]), first))
    ]
    deltas = [event for event in events if isinstance(event, Delta)]
    assert "".join(delta.text for delta in deltas) == "Hello"
    told = [token.chosen.logprob for delta in deltas for token in delta.scored]
    assert told == [None, -1.0, -2.0, -3.0, -4.0]
