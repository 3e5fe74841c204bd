"""The default model, fetched and converted, is the model it was and knows its own text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm import load, stream_generate
from tokenizers import Tokenizer

from headrace.actors.engine.blas import use_fast_blas

# Plain English that a small model finds easy; a wrong row order makes each word a surprise.
TEXT = (
    "The quick brown fox jumps over the lazy dog. In 1969, Neil Armstrong became the first "
    "person to walk on the Moon. Water boils at one hundred degrees Celsius at sea level."
)


@pytest.fixture(scope="module")
def loaded(default_model: Path) -> Iterator[tuple[Any, Any]]:
    use_fast_blas()
    model, tokenizer = load(str(default_model))[:2]
    yield model, tokenizer
    mx.synchronize()


@pytest.fixture(scope="module")
def tokenizer(default_model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(default_model / "tokenizer.json"))


def test_it_answers_a_question_in_english(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True)
    pieces = list(stream_generate(model, tokenizer, prompt, max_tokens=24))
    assert "".join(piece.text for piece in pieces) == "The capital of France is Paris."
    assert pieces[-1].finish_reason == "stop"


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_it_answers_the_same_from_every_cut_of_a_prompt_that_was_kept(
    loaded: tuple[Any, Any], take_with: Any, step: int
) -> None:
    model, tokenizer = loaded
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True)
    hand = take_with(model, lookahead=False, end_tokens=[2], vocab_size=model.args.vocab_size)
    hand.enter(0, prompt)
    hand.engine.limit_cache(1 << 30)
    cuts = range(1, len(prompt) - 1, step)
    for cut in cuts:
        hand.engine.free_cache(1 << 30)
        hand.enter(1000 + cut, prompt[: cut + 1])
        hand.engine.remove(1000 + cut)
        hand.enter(cut, prompt)
        assert hand.engine.reused(cut) == cut
    hand.decode(7)
    assert tokenizer.decode(hand.given[0]) == "The capital of France is Paris."
    assert all(hand.given[cut] == hand.given[0] for cut in cuts)


def test_plain_text_does_not_surprise_it(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    ids = mx.array(tokenizer.encode(TEXT))[None]
    scores = model(ids)[0, :-1]
    chances = scores - mx.logsumexp(scores, axis=-1, keepdims=True)
    loss = -mx.take_along_axis(chances, ids[0, 1:, None], axis=-1).mean()
    assert float(np.exp(np.array(loss))) < 15


def test_turn_marks_are_one_token_each(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>").ids == [1, 4093, 198, 6004, 2]
    assert tokenizer.token_to_id("<|endoftext|>") == 0


def test_digits_stand_alone_and_nothing_is_put_in_front(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("The capital of France is 12345").ids == [
        *(504, 3575, 282, 4649, 314, 216),
        *(33, 34, 35, 36, 37),
    ]


# The model's own vocabulary lacks these control characters and two of the four-byte leads.
KNOWN = st.characters(
    codec="utf-8", max_codepoint=0x3FFFF, exclude_characters="\x04\x06\x13\x14\x16\x1d"
)


@given(st.text(KNOWN, max_size=60))
def test_any_text_comes_back_from_its_ids(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: int) -> str:\n\treturn f'{x!r:>10}'  # 0x1F600\r\n\n\n",
        "naïve café — “quotes” … ½ µm",
        "日本語のテキスト 한국어 עברית العربية",
        "👩‍👩‍👧 🏳️‍🌈 e\u0301 \u200b\ufeff",
        "  leading,   inner and trailing   ",
    ],
)
def test_code_scripts_and_spaces_come_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text
