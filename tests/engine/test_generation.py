"""The tokens of a batch whose rows come and go are mlx-lm's tokens for each row alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_logits_processors

from headrace.runtime.settings import Settings

LENGTHS = (1, 2, 5, 9, 17, 40, 3)
PROMPTS = [random.Random(n).choices(range(97), k=n) for n in LENGTHS]


@pytest.mark.parametrize("prompt", [PROMPTS[number] for number in (0, 3, 5)], ids=len)
def test_a_lone_row(model: Any, prompt: list[int], take: Callable[..., Any], alone: Any) -> None:
    hand = take(model)
    hand.enter(0, prompt, max_tokens=20)
    hand.decode(20)
    assert hand.given[0] == alone(model, prompt, 20)


@pytest.mark.parametrize("chunk", [1, 3, None], ids=["chunks of 1", "chunks of 3", "whole"])
def test_rows_that_join_a_running_batch(
    model: Any, chunk: int | None, take: Callable[..., Any], alone: Any
) -> None:
    hand = take(model)
    for row, prompt in enumerate(PROMPTS):
        hand.add(row, prompt, max_tokens=12)
        while hand.engine.remaining(row):
            hand.prefill(row, chunk)
            hand.decode()
    hand.decode(12)
    assert hand.given == {row: alone(model, prompt, 12) for row, prompt in enumerate(PROMPTS)}


def test_rows_that_are_prefilled_together(model: Any, take: Callable[..., Any], alone: Any) -> None:
    hand = take(model)
    for row, prompt in enumerate(PROMPTS):
        hand.add(row, prompt, max_tokens=15)
    hand.prefill(4, 7)  # part of its prompt alone, the rest with the others
    hand.prefill_together(1, 2, 4)
    hand.decode(3)
    hand.prefill_together(3, 5, 6)
    hand.decode(15)
    assert hand.given == {row: alone(model, prompt, 15) for row, prompt in enumerate(PROMPTS)}


def test_rows_of_very_different_lengths_leave_in_any_order(
    model: Any, take: Callable[..., Any], alone: Any
) -> None:
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        hand = take(model)
        prompts = [PROMPTS[i] for i in (5, 0, 3, 1)]
        for row, prompt in enumerate(prompts):
            hand.enter(row, prompt, max_tokens=40)
        for row in order:
            hand.decode(5)
            hand.engine.remove(row)
        for place, row in enumerate(order):
            assert hand.given[row] == alone(model, prompts[row], 40)[: 5 * (place + 1)]


def test_a_row_of_5_and_one_of_200_tokens_share_a_batch_f6(
    model: Any, take: Callable[..., Any], alone: Any
) -> None:
    """The shorter one is padded. KV is not quantized here, and there is no setting that says so."""
    prompts = [random.Random(n).choices(range(97), k=n) for n in (5, 200)]
    hand = take(model)
    for row, prompt in enumerate(prompts):
        hand.enter(row, prompt, max_tokens=20)
    hand.decode(20)
    assert hand.given == {row: alone(model, prompt, 20) for row, prompt in enumerate(prompts)}
    assert not [name for name in attrs.fields_dict(Settings) if "kv" in name or "bits" in name]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_any_history_of_joins_and_leaves(
    model: Any, seed: int, take: Callable[..., Any], alone: Any
) -> None:
    draw = random.Random(seed)
    hand = take(model)
    prompts: dict[int, Sequence[int]] = {}
    living: set[int] = set()
    for _ in range(60):
        act = draw.choice(["join", "prefill", "decode", "decode", "decode", "leave"])
        waiting = [row for row in living if hand.engine.remaining(row)]
        if act == "join" and len(living) < 7:
            row = len(prompts)
            prompts[row] = draw.choice(PROMPTS)
            living.add(row)
            hand.add(row, prompts[row], max_tokens=30)
        elif act == "prefill" and len(waiting) > 1 and draw.random() < 0.3:
            hand.prefill_together(*waiting)
        elif act == "prefill" and waiting:
            hand.prefill(draw.choice(waiting), draw.choice([1, 4, None]))
        elif act == "leave" and living and draw.random() < 0.5:
            row = draw.choice(sorted(living))
            living.remove(row)
            hand.engine.remove(row)
        elif act == "decode":
            hand.decode()
    for row, tokens in hand.given.items():
        assert tokens == alone(model, prompts[row], 30)[: len(tokens)]
    assert not hand.failed


def test_a_row_gets_no_more_tokens_than_it_may_have(
    tiny_llama: Any, take: Callable[..., Any], alone: Any
) -> None:
    hand = take(tiny_llama)
    for row, most in enumerate((1, 3, 6)):
        hand.enter(row, PROMPTS[3], max_tokens=most)
    hand.decode(10)
    expected = alone(tiny_llama, PROMPTS[3], 6)
    assert hand.given == {0: expected[:1], 1: expected[:3], 2: expected}


class Counting:
    """A model that notes how many rows each forward pass computes."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.layers = model.layers
        self.rows: list[int] = []

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        self.rows.append(tokens.shape[0])
        logits: mx.array = self.model(tokens, cache=cache)
        return logits


def test_rows_that_are_removed_or_have_all_their_tokens_are_not_computed(
    tiny_llama: Any, take: Callable[..., Any], lookahead: bool
) -> None:
    counting = Counting(tiny_llama)
    hand = take(counting)
    for row, most in enumerate((2, 4, 9)):
        hand.enter(row, PROMPTS[3], max_tokens=most)
    counting.rows.clear()
    hand.decode(3)
    hand.engine.remove(2)
    hand.decode(5)
    # With lookahead the first call also submits the second step, and the third the fourth.
    assert counting.rows == ([3, 3, 2, 2] if lookahead else [3, 3, 2, 1])


def test_each_complete_row_gets_exactly_one_token_a_step(
    tiny_llama: Any, take: Callable[..., Any]
) -> None:
    hand = take(tiny_llama)
    hand.enter(0, PROMPTS[2])
    hand.add(1, PROMPTS[4])
    hand.prefill(1, 3)
    assert [token.row for token in hand.decode().tokens] == [0]
    hand.enter(2, PROMPTS[0])
    hand.prefill(1)
    assert sorted(token.row for token in hand.decode().tokens) == [0, 1, 2]
    assert hand.engine.decode().failed == ()


def test_end_tokens_are_given_like_any_other(
    tiny_llama: Any, take: Callable[..., Any], alone: Any
) -> None:
    expected = alone(tiny_llama, PROMPTS[3], 12)
    hand = take(tiny_llama, end_tokens=[expected[2]])
    hand.enter(0, PROMPTS[3])
    hand.enter(1, PROMPTS[3], ignore_eos=True)
    hand.enter(2, PROMPTS[3], min_tokens=3)
    hand.decode(12)
    assert hand.given[0] == expected
    assert expected[2] not in hand.given[1]
    assert expected[2] not in hand.given[2][:3]


def test_logits_beyond_the_vocabulary_are_never_sampled(
    tiny_llama: Any, take: Callable[..., Any], alone: Any
) -> None:
    likely = max(alone(tiny_llama, PROMPTS[3], 12))
    hand = take(tiny_llama, vocab_size=likely)
    hand.enter(0, [1, 2, 3])
    hand.enter(1, [1, 2, 3], temperature=2.0)
    hand.decode(12)
    assert max(hand.given[0] + hand.given[1]) < likely


SEEDED = {"temperature": 1.0, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 11}


def test_a_seeded_row_repeats_alone_and_in_company_f2_f4(
    model: Any, take: Callable[..., Any]
) -> None:
    by_itself = take(model)
    by_itself.enter(0, PROMPTS[3], max_tokens=20, **SEEDED)
    by_itself.decode(20)

    company = take(model)
    company.enter(1, PROMPTS[4], max_tokens=30, temperature=0.7)
    company.decode(2)
    company.enter(0, PROMPTS[3], max_tokens=20, **SEEDED)
    company.enter(2, PROMPTS[4], temperature=1.0, top_k=5, xtc_probability=0.5)
    company.decode(4)
    company.engine.remove(1)
    company.enter(3, PROMPTS[5], frequency_penalty=0.5)
    company.decode(16)
    assert company.given[0] == by_itself.given[0]
    assert len(set(by_itself.given[0])) > 1


def test_both_modes_give_the_same_tokens_whatever_is_asked(
    tiny_llama: Any, take_with: Callable[..., Any]
) -> None:
    given = []
    for lookahead in (False, True):
        hand = take_with(tiny_llama, lookahead=lookahead)
        hand.enter(0, PROMPTS[3], max_tokens=20, **SEEDED)
        hand.enter(1, PROMPTS[2], max_tokens=20, presence_penalty=1.0, min_tokens=4)
        hand.decode(3)
        hand.enter(2, PROMPTS[5], temperature=1.0, logit_bias=((5, 4.0),), max_tokens=9)
        hand.decode(5)
        hand.engine.remove(1)
        hand.enter(3, PROMPTS[1], temperature=1.3, frequency_penalty=0.4)
        hand.decode(20)
        given.append(hand.given)
    assert given[0] == given[1]
    assert list(map(len, given[0].values())) == [20, 8, 9, 12]


def test_mlx_lm_with_penalties_agrees(tiny_llama: Any, take: Callable[..., Any]) -> None:
    processors = make_logits_processors(
        {5: 2.0}, repetition_penalty=1.3, presence_penalty=0.2, frequency_penalty=0.1
    )
    steps = generate_step(
        mx.array(PROMPTS[4]), tiny_llama, max_tokens=30, logits_processors=processors
    )
    expected = [int(token) for token, _ in steps]
    hand = take(tiny_llama)
    hand.enter(1, PROMPTS[3], max_tokens=30)
    hand.enter(
        0,
        PROMPTS[4],
        max_tokens=30,
        logit_bias=((5, 2.0),),
        repetition_penalty=1.3,
        presence_penalty=0.2,
        frequency_penalty=0.1,
    )
    hand.decode(30)
    assert hand.given[0] == expected
