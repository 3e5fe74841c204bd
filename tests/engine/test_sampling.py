"""Whole rows of a batch sampled at once, each by its own parameters alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.engine.rows import Row
from headrace.actors.engine.sampling import Sampler, Vocabulary
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec

# Two blocks and a part of one.
VOCAB = 150
VOCABULARY = Vocabulary(VOCAB, end_tokens=(1,), newline_tokens=(2,))
SAMPLINGS = st.builds(
    Sampling,
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    top_p=st.sampled_from([1.0, 0.9, 0.3, 0.0]),
    top_k=st.sampled_from([0, -1, 1, 7, 64, 1000]),
    min_p=st.sampled_from([0.0, 0.05]),
    xtc_probability=st.sampled_from([0.0, 0.5, 1.0]),
    xtc_threshold=st.sampled_from([0.05, 0.2]),
    repetition_penalty=st.sampled_from([1.0, 1.2]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
    logit_bias=st.sampled_from([(), ((5, 3.0), (6, -100.0))]),
    min_tokens=st.sampled_from([0, 2]),
)


def logits_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(0, 3, VOCAB).astype(np.float32)


def generate(samplings: Sequence[Sampling], xp: Any = np, steps: int = 5) -> list[list[int]]:
    """Tokens of rows that all see their own, seed-dependent logits at each step."""
    rows = [Row(RowSpec(i, (3, 4), sampling, steps)) for i, sampling in enumerate(samplings)]
    sampler = Sampler(rows, VOCABULARY, xp)
    answers: list[list[int]] = [[] for _ in rows]
    for step in range(steps):
        logits = np.stack([logits_of(1000 * row.spec.sampling.seed + step) for row in rows])
        tokens = sampler.sample(xp.array(logits)).tolist()
        for row, token, answer in zip(rows, tokens, answers, strict=True):
            row.take(token)
            answer.append(token)
    return answers


@given(st.lists(SAMPLINGS, min_size=1, max_size=6))
def test_a_row_samples_the_same_alone_and_in_any_company_f2(samplings: list[Sampling]) -> None:
    assert generate(samplings) == [generate([sampling])[0] for sampling in samplings]


@given(st.lists(SAMPLINGS, min_size=1, max_size=4))
def test_host_and_device_sample_the_same(samplings: list[Sampling]) -> None:
    assert generate(samplings, np) == generate(samplings, mx)


@pytest.mark.parametrize("xp", [np, mx])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=1, temperature=0),
        Sampling(seed=1, temperature=1e-9),
        Sampling(seed=1, top_p=0),
        Sampling(seed=1, top_k=1),
        Sampling(seed=1, temperature=2, min_p=1.0),
    ],
)
def test_these_always_take_the_most_likely_token(sampling: Sampling, xp: Any) -> None:
    best = [int(logits_of(1000 + step).argmax()) for step in range(5)]
    assert generate([sampling], xp) == [best]


def test_the_seed_and_the_choice_decide_the_tokens_f1() -> None:
    logits = np.zeros((1, VOCAB), dtype=np.float32)

    def tokens(seed: int, choice: int) -> list[int]:
        row = Row(RowSpec(0, (3,), Sampling(seed=seed), 20, choice))
        sampler = Sampler([row], VOCABULARY, np)
        return [int(sampler.sample(logits.copy())[0]) for _ in range(20)]

    assert tokens(1, 0) == tokens(1, 0)
    assert len({tuple(tokens(seed, choice)) for seed in (1, 2, -1) for choice in (0, 1)}) == 6


def test_draws_continue_with_the_position_when_the_company_changes() -> None:
    logits = np.stack([logits_of(0), logits_of(0)])
    lasting, other = (Row(RowSpec(i, (3,), Sampling(seed=i), 9)) for i in (5, 6))
    together = Sampler([lasting, other], VOCABULARY, np)
    tokens = [int(together.sample(logits.copy())[0]) for _ in range(2)]
    tokens += [int(Sampler([lasting], VOCABULARY, np).sample(logits[:1].copy())[0])]
    alone = Sampler([Row(RowSpec(5, (3,), Sampling(seed=5), 9))], VOCABULARY, np)
    assert tokens == [int(alone.sample(logits[:1].copy())[0]) for _ in range(3)]


@pytest.mark.parametrize("xp", [np, mx])
def test_the_coin_of_xtc_falls_as_often_as_asked(xp: Any) -> None:
    logits = np.full((1, VOCAB), -30.0, dtype=np.float32)
    logits[0, [10, 11]] = [1.0, 0.9]
    sampling = Sampling(seed=4, xtc_probability=0.3, xtc_threshold=0.1, temperature=0.01)
    sampler = Sampler([Row(RowSpec(0, (3,), sampling, 2000))], VOCABULARY, xp)
    tokens = [int(sampler.sample(xp.array(logits)).item()) for _ in range(1000)]
    assert set(tokens) == {10, 11}
    # Three standard deviations of a binomial of 1000 and 0.3.
    assert abs(tokens.count(11) - 300) < 44


@pytest.mark.parametrize("spared", [1, 2])
def test_xtc_spares_end_and_newline_tokens(spared: int) -> None:
    logits = np.full((1, VOCAB), -30.0, dtype=np.float32)
    logits[0, [spared, 11, 12]] = [9.0, 2.0, 1.9]
    sampling = Sampling(seed=4, xtc_probability=1, xtc_threshold=0, temperature=0.01)
    row = Row(RowSpec(0, (3,), sampling, 9))
    assert Sampler([row], VOCABULARY, np).sample(logits).tolist() == [spared]


@pytest.mark.parametrize("xp", [np, mx])
def test_a_row_of_nan_gets_a_token_of_the_vocabulary_and_disturbs_nobody(xp: Any) -> None:
    sampling = Sampling(seed=1, top_p=0.9, min_p=0.01, frequency_penalty=1)
    broken, sound = (Row(RowSpec(i, (3,), sampling, 9)) for i in range(2))
    logits = np.stack([np.full(VOCAB, np.nan, dtype=np.float32), logits_of(1)])
    alone = Sampler([Row(RowSpec(1, (3,), sampling, 9))], VOCABULARY, xp)
    tokens = Sampler([broken, sound], VOCABULARY, xp).sample(xp.array(logits)).tolist()
    assert 0 <= tokens[0] < VOCAB
    assert tokens[1:] == alone.sample(xp.array(logits[1:])).tolist()


def test_only_penalties_have_to_wait_for_the_last_token() -> None:
    def waits(**asked: Any) -> bool:
        row = Row(RowSpec(0, (3,), Sampling(seed=0, **asked), 9))
        return Sampler([row], VOCABULARY, mx).needs_history

    assert waits(presence_penalty=0.5)
    assert waits(frequency_penalty=0.5)
    assert waits(repetition_penalty=1.1)
    assert not waits(top_p=0.9, min_tokens=5, ignore_eos=True, logit_bias=((5, 1.0),))
