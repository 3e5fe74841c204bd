"""Draws follow the distribution, host and device draw alike, and rounding hardly ever moves one."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.engine import draws
from headrace.actors.engine.drawing import Noise, blocks_of, drawn, drawn_among
from headrace.actors.engine.draws import Stream, gumbels
from headrace.actors.engine.filters import BLOCK

LOGIT = st.one_of(st.just(-math.inf), st.floats(-40, 40, width=32))
# Less than a block, exactly some, and some and a part of one.
SIZES = (1, 7, BLOCK, BLOCK + 1, 4 * BLOCK, 5 * BLOCK - 3)
TEMPERATURES = st.sampled_from([0.01, 0.7, 1.0, 2.0])


def noise(rows: int, vocab_size: int, xp: Any = np, *, start: int = 0) -> Noise:
    """That of rows with the seeds from `start` on, at their first token."""
    seeds, first = range(start, start + rows), np.zeros(rows, dtype=np.uint64)
    blocks, places = (
        np.array([draws.key(seed, 0, stream) for seed in seeds], dtype=np.uint64)
        for stream in (Stream.BLOCK, Stream.TOKEN)
    )
    return Noise(
        xp.asarray(gumbels(blocks, first, blocks_of(vocab_size))),
        xp.asarray(gumbels(places, first, BLOCK)),
    )


def column(value: float, rows: int = 1) -> np.ndarray:
    return np.full((rows, 1), value, dtype=np.float32)


def sharp(vocab_size: int, number: int = 0) -> np.ndarray:
    return np.random.default_rng(number).normal(0, 3, vocab_size).astype(np.float32)


@given(st.lists(LOGIT, min_size=1, max_size=200), st.integers(0, 2**32), TEMPERATURES)
def test_a_draw_never_finds_a_token_without_probability(
    logits: list[float], seed: int, temperature: float
) -> None:
    if all(map(math.isinf, logits)):
        logits[0] = 0.0
    array, size = np.array([logits], dtype=np.float32), len(logits)
    with np.errstate(divide="ignore"):
        for xp in (np, mx):
            heat, own = xp.asarray(column(temperature)), noise(1, size, xp, start=seed)
            (found,) = drawn(xp, xp.asarray(array), heat, own).tolist()
            assert logits[found] > -math.inf


@pytest.mark.parametrize(("size", "temperature"), [*zip(SIZES, [0.5, 1.0, 1.7] * 2, strict=True)])
def test_draws_follow_the_distribution_at_the_temperature(size: int, temperature: float) -> None:
    logits, count = sharp(size), 40_000
    share = np.exp(logits.astype(np.float64) / temperature)
    share /= share.sum()
    found = np.concatenate(
        [
            drawn(
                np,
                np.tile(logits, (2_000, 1)),
                column(temperature, 2_000),
                noise(2_000, size, start=start),
            )
            for start in range(0, count, 2_000)
        ]
    )
    frequency = np.bincount(found, minlength=size) / count
    # Five standard deviations of each token's binomial: once in two million.
    deviation = np.sqrt(share * (1 - share) / count)
    assert (np.abs(frequency - share) <= 5 * deviation + 1 / count).all()


@pytest.mark.parametrize("size", SIZES)
def test_host_and_device_draw_the_same(size: int) -> None:
    logits, heat = np.stack([sharp(size, number) for number in range(50)]), column(0.9, 50)
    on_device = drawn(mx, mx.array(logits), mx.array(heat), noise(50, size, mx))
    assert on_device.tolist() == drawn(np, logits, heat, noise(50, size)).tolist()


@given(
    st.sets(st.integers(0, 3 * BLOCK - 1), min_size=1, max_size=30),
    st.sampled_from([0, 1, 40]),
    st.integers(0, 2**32),
    TEMPERATURES,
)
def test_among_candidates_it_is_what_the_whole_vocabulary_gives(
    kept: set[int], filling: int, seed: int, temperature: float
) -> None:
    size = 3 * BLOCK
    ids = sorted(kept)
    all_logits = np.full((1, size), -np.inf, dtype=np.float32)
    all_logits[0, ids] = sharp(size, seed)[ids]
    tokens = np.array([ids + [0] * filling])
    few = np.full(tokens.shape, -np.inf, dtype=np.float32)
    few[0, : len(ids)] = all_logits[0, ids]
    heat, own = column(temperature), noise(1, size, start=seed)
    with np.errstate(divide="ignore"):
        whole = drawn(np, all_logits, heat, own).tolist()
        assert drawn_among(tokens, few, heat, own).tolist() == whole


@pytest.mark.parametrize("among", [False, True])
def test_logits_that_differ_by_rounding_draw_the_same(among: bool) -> None:
    # What a batch of another width moves logits by, and the vocabulary of the default model. A
    # number looked up in a sum of all probabilities draws another token in one of 80 cases.
    size, rows, changed = 49_152, 40, 0
    random = np.random.default_rng(5)
    tokens = np.tile(np.arange(size), (rows, 1))
    for start in range(0, 400, rows):
        logits = random.normal(0, 3, (rows, size)).astype(np.float32)
        nearly = (logits + random.normal(0, 2e-5, logits.shape)).astype(np.float32)
        own, heat = noise(rows, size, start=start), column(1.0, rows)
        found = [
            drawn_among(tokens, each, heat, own) if among else drawn(np, each, heat, own)
            for each in (logits, nearly)
        ]
        changed += int((found[0] != found[1]).sum())
    assert changed == 0
