"""Plain completions through the official Python client.

The default model completes in `test_real_cases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import openai
import pytest
from openai.types import Completion

from headrace.runtime.testing.serving import Serving

Ask: TypeAlias = Callable[..., Any]
PROMPT = "The capital of France is 12345"
# What the default model's tokenizer makes of it, which both models have.
TOKENS = [504, 3575, 282, 4649, 314, 216, 33, 34, 35, 36, 37]


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """Texts are compared, whatever the weights are."""
    return served_small


@pytest.fixture(scope="module")
def ask(client: openai.OpenAI) -> Ask:
    fields: dict[str, Any] = {
        "model": "default",
        "prompt": PROMPT,
        "temperature": 0,
        "max_tokens": 5,
    }
    return lambda **given: client.completions.create(**(fields | given))


@pytest.fixture(scope="module")
def plain(ask: Ask) -> Completion:
    answer: Completion = ask()
    return answer


@pytest.fixture(scope="module")
def text(plain: Completion) -> str:
    return plain.choices[0].text


def test_a_whole_answer_is_what_the_client_declares(plain: Completion) -> None:
    Completion.model_validate(plain.to_dict(), strict=True)
    assert plain.object == "text_completion"
    (choice,) = plain.choices
    assert (choice.index, choice.finish_reason) == (0, "length")
    assert plain.usage is not None
    assert (plain.usage.prompt_tokens, plain.usage.completion_tokens) == (len(TOKENS), 5)


def test_a_stream_says_the_same_and_ends_with_its_usage(ask: Ask, text: str) -> None:
    *chunks, last = list(ask(stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks) == text
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.choices == []
    assert last.usage.completion_tokens == 5


@pytest.mark.parametrize("prompt", [TOKENS, [TOKENS], [PROMPT]], ids=["ids", "lists", "texts"])
def test_a_prompt_in_another_form_is_the_same_prompt(ask: Ask, text: str, prompt: Any) -> None:
    answer = ask(prompt=prompt)
    assert answer.usage.prompt_tokens == len(TOKENS)
    assert [choice.text for choice in answer.choices] == [text]


def test_several_prompts_are_answered_in_order(ask: Ask) -> None:
    answer = ask(prompt=["One, two,", "Paris is"], n=2, echo=True, max_tokens=1)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    begins = [choice.text[:8] for choice in answer.choices]
    assert begins == ["One, two"] * 2 + ["Paris is"] * 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_echo_comes_before_the_text(ask: Ask, text: str, stream: bool) -> None:
    given = ask(echo=True, stream=stream)
    parts = list(given) if stream else [given]
    assert "".join(part.choices[0].text for part in parts) == PROMPT + text


def test_a_stop_string_is_cut_off(ask: Ask, text: str) -> None:
    stop = text[3:6]
    (choice,) = ask(stop=stop).choices
    assert (choice.text, choice.finish_reason) == (text.partition(stop)[0], "stop")


def test_chances_are_four_lists_of_one_length(ask: Ask, text: str) -> None:
    scores = ask(logprobs=2).choices[0].logprobs
    assert "".join(scores.tokens) == text
    lists = (scores.tokens, scores.token_logprobs, scores.top_logprobs, scores.text_offset)
    assert [len(entries) for entries in lists] == [5] * 4
    assert all(chance <= 0 for chance in scores.token_logprobs)
    assert all(2 <= len(likeliest) <= 3 for likeliest in scores.top_logprobs)
    starts = [len("".join(scores.tokens[:index])) for index in range(5)]
    assert scores.text_offset == starts


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [10**9]}, "prompt[0]"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
    ],
    ids=["nothing", "unknown id", "suffix", "best_of", "too many", "a boolean"],
)
def test_what_cannot_be_is_a_bad_request(ask: Ask, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(**fields)
    assert caught.value.param == param
