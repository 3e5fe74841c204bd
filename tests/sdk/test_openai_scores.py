"""Draws, choices and log-probabilities through the official Python client.

Those of the default model are in `test_real_cases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import openai
import pytest
from openai.types.chat import ChatCompletionTokenLogprob

from headrace.runtime.testing.serving import Serving

Ask: TypeAlias = Callable[..., Any]
Scores: TypeAlias = list[ChatCompletionTokenLogprob]


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """Chances are compared, whatever the weights are."""
    return served_small


@pytest.fixture(scope="module")
def ask(client: openai.OpenAI) -> Ask:
    fields: dict[str, Any] = {
        "model": "default",
        "messages": [{"role": "user", "content": "Name a colour and an animal."}],
        "temperature": 1,
        "seed": 7,
        "max_completion_tokens": 5,
    }
    return lambda **given: client.chat.completions.create(**(fields | given))


@pytest.fixture(scope="module")
def scores(ask: Ask) -> Scores:
    answer = ask(logprobs=True, top_logprobs=3)
    found: Scores = answer.choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes or ()) for entry in found).decode() == (
        answer.choices[0].message.content
    )
    return found


def contents(answer: Any) -> list[str]:
    return [choice.message.content for choice in answer.choices]


def test_a_seed_repeats_a_draw_and_another_draws_anew(ask: Ask) -> None:
    first = contents(ask())
    assert contents(ask()) == first
    assert len({tuple(contents(ask(seed=seed))) for seed in (1, 2, 3)} | {tuple(first)}) > 1


def test_the_first_of_several_choices_is_the_only_one_of_one(ask: Ask) -> None:
    answer = ask(n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert contents(answer)[0] == contents(ask())[0]
    assert answer.usage.completion_tokens == 10


def test_several_choices_in_a_stream(ask: Ask) -> None:
    texts, reasons = {0: "", 1: ""}, []
    for chunk in ask(n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons += [choice.index] if choice.finish_reason else []
    assert sorted(reasons) == [0, 1]
    assert list(texts.values()) == contents(ask(n=2))


def test_each_token_comes_with_its_chance_and_the_likeliest_others(scores: Scores) -> None:
    assert len(scores) == 5
    for entry in scores:
        assert entry.logprob <= 0
        others = [other.logprob for other in entry.top_logprobs]
        assert len(others) == 3
        assert others == sorted(others, reverse=True)


def test_a_stream_has_the_same_chances(ask: Ask, scores: Scores) -> None:
    streamed = [
        entry
        for chunk in ask(logprobs=True, top_logprobs=3, stream=True)
        for choice in chunk.choices
        for entry in (choice.logprobs.content if choice.logprobs else None) or ()
    ]
    assert [entry.token for entry in streamed] == [entry.token for entry in scores]
    assert [entry.logprob for entry in streamed] == pytest.approx(
        [entry.logprob for entry in scores], abs=1e-3
    )


def test_the_stream_helper_gathers_the_chances(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="default",
        messages=[{"role": "user", "content": "Hi"}],
        logprobs=True,
        stop=" ",
        temperature=0,
    ) as stream:
        done = [event for event in stream if event.type == "logprobs.content.done"]
        final = stream.get_final_completion()
    assert final.choices[0].logprobs is not None
    assert [entry.content for entry in done] == [final.choices[0].logprobs.content]


def test_no_others_unless_they_are_asked_for(ask: Ask) -> None:
    entries = ask(logprobs=True, max_completion_tokens=2).choices[0].logprobs.content
    assert [entry.top_logprobs for entry in entries] == [[], []]


def test_a_greedy_token_is_the_likeliest(ask: Ask) -> None:
    answer = ask(temperature=0, logprobs=True, top_logprobs=1, max_completion_tokens=3)
    for entry in answer.choices[0].logprobs.content:
        assert entry.top_logprobs[0].token == entry.token


def test_a_bias_can_force_a_token_and_forbid_it(ask: Ask) -> None:
    forced = contents(ask(logit_bias={"1000": 100}, max_completion_tokens=3))[0]
    token = forced[: len(forced) // 3]
    assert token
    assert forced == token * 3
    answer = ask(temperature=0, logprobs=True, max_completion_tokens=1)
    (likeliest,) = answer.choices[0].logprobs.content
    forbidden = ask(temperature=0, max_completion_tokens=1, logit_bias={"1000": -100})
    assert (contents(forbidden)[0] == likeliest.token) == (likeliest.token != token)


@pytest.mark.parametrize(
    "fields",
    [{"top_p": 0.0}, {"extra_body": {"top_k": 1}}, {"extra_body": {"min_p": 1.0}}],
    ids=["top_p", "top_k", "min_p"],
)
def test_a_filter_down_to_one_token_is_greedy(ask: Ask, fields: dict[str, Any]) -> None:
    greedy = contents(ask(temperature=0, max_completion_tokens=3))
    assert contents(ask(max_completion_tokens=3, **fields)) == greedy
