"""Biases, penalties and held end tokens against mlx-lm's processors and the contract."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.sample_utils import make_logits_processors

from headrace.actors.engine.penalties import Penalties
from headrace.actors.engine.rows import Row
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec

VOCAB = 12
ENDS = (1, 2)
TOKENS = st.integers(0, VOCAB - 1)
LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=VOCAB, max_size=VOCAB)
PENALISED = st.builds(
    Sampling,
    seed=st.just(0),
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.3]),
    presence_penalty=st.sampled_from([0.0, -1.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.4]),
    repetition_context_size=st.integers(0, 5),
    presence_context_size=st.integers(0, 5),
    frequency_context_size=st.integers(0, 5),
    logit_bias=st.dictionaries(TOKENS, st.floats(-20, 20), max_size=3).map(
        lambda bias: tuple(bias.items())
    ),
)
Asked = tuple[list[int], list[int], Sampling, list[float]]
ASKED = st.tuples(st.lists(TOKENS, min_size=1), st.lists(TOKENS), PENALISED, LOGITS)


def row_of(prompt: list[int], answer: list[int], sampling: Sampling, number: int = 0) -> Row:
    """A row that has been given an answer so far."""
    row = Row(RowSpec(number, tuple(prompt), sampling, max_tokens=len(answer) + 1))
    row.window(0)
    for token in answer:
        row.sampled += 1
        row.take(token)
    return row


def changed(rows: list[Row], logits: Any, xp: Any = np) -> np.ndarray:
    edits = Penalties(rows, ENDS, VOCAB).edits()
    array = xp.array(np.array(logits, dtype=np.float32))
    return np.array(array if edits is None else edits.on(xp).apply(xp, array))


def by_mlx_lm(asked: Asked) -> np.ndarray:
    prompt, answer, sampling, logits = asked
    names = ("repetition", "presence", "frequency")
    settings = {f"{n}_{k}": getattr(sampling, f"{n}_{k}") for n in names for k in ("penalty",)}
    settings |= {f"{n}_context_size": getattr(sampling, f"{n}_context_size") for n in names}
    processors = make_logits_processors(dict(sampling.logit_bias), **settings)
    array = mx.array(logits)[None]
    for processor in processors:
        array = processor(mx.array(prompt + answer), array)
    return np.array(array[0])


@given(st.lists(ASKED, min_size=1, max_size=4))
def test_a_mixed_batch_is_changed_as_mlx_lm_changes_each_row_alone(batch: list[Asked]) -> None:
    rows = [
        row_of(prompt, answer, sampling, i) for i, (prompt, answer, sampling, _) in enumerate(batch)
    ]
    logits = [asked[3] for asked in batch]
    expected = [by_mlx_lm(asked) for asked in batch]
    for xp in (np, mx):
        np.testing.assert_allclose(changed(rows, logits, xp), expected, rtol=1e-5, atol=1e-5)


def test_a_context_of_some_tokens_forgets_the_older_ones_and_zero_forgets_none() -> None:
    logits = [[1.0] * VOCAB]
    recent = Sampling(seed=0, presence_penalty=1, presence_context_size=2)
    everything = Sampling(seed=0, presence_penalty=1, presence_context_size=0)
    assert np.flatnonzero(changed([row_of([3, 4, 5], [6], recent)], logits) < 1).tolist() == [5, 6]
    whole = changed([row_of([3, 4, 5], [6], everything)], logits)
    assert np.flatnonzero(whole < 1).tolist() == [3, 4, 5, 6]


def test_a_bias_of_minus_100_masks_and_a_weaker_one_does_not() -> None:
    sampling = Sampling(seed=0, logit_bias=((4, -100.0), (5, -99.0)))
    logits = changed([row_of([3], [], sampling)], [[0.0] * VOCAB])
    assert logits[0, 4] == -np.inf
    assert logits[0, 5] == -99


@pytest.mark.parametrize(
    ("sampling", "given", "held"),
    [
        (Sampling(seed=0, ignore_eos=True), 9, True),
        (Sampling(seed=0, min_tokens=2), 1, True),
        (Sampling(seed=0, min_tokens=2), 2, False),
        (Sampling(seed=0), 0, False),
    ],
)
def test_end_tokens_are_masked_while_a_row_may_not_end(
    sampling: Sampling, given: int, held: bool
) -> None:
    logits = changed([row_of([3], [5] * given, sampling)], [[0.0] * VOCAB])
    assert np.flatnonzero(np.isneginf(logits)).tolist() == (list(ENDS) if held else [])


def test_the_changes_are_known_to_hold_until_something_changes_them() -> None:
    biased = row_of([3], [], Sampling(seed=0, logit_bias=((4, 1.0),)))
    waiting = row_of([3], [5], Sampling(seed=0, min_tokens=3))
    penalised = row_of([3], [], Sampling(seed=0, frequency_penalty=1))
    assert Penalties([biased], ENDS, VOCAB).steps_unchanged() == np.inf
    assert Penalties([biased, waiting], ENDS, VOCAB).steps_unchanged() == 2
    assert Penalties([biased, waiting, penalised], ENDS, VOCAB).steps_unchanged() == 1
