"""The filters against mlx-lm's, on the host and on the device, with and without candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm import sample_utils

from headrace.actors.engine.candidates import candidates
from headrace.actors.engine.filters import BLOCK, Exclusion, Filters, narrowed, shifted

VOCAB = 30
LOGITS = st.lists(
    st.integers(-600, 600).map(lambda tenth: tenth / 64),
    min_size=VOCAB,
    max_size=VOCAB,
    unique=True,
)


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """mlx-lm's filters would be compiled anew, by a C++ compiler, for every parameter tried."""
    mx.disable_compile()
    yield
    mx.enable_compile()


@attrs.frozen
class Asked:
    """What one row asks for; the defaults ask for nothing."""

    top_p: float = 1.0
    min_p: float = 0.0
    top_k: int = 0
    xtc: float = math.inf


ASKED = st.builds(
    Asked,
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.1, 0.001]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 29]),
    xtc=st.sampled_from([math.inf, 0.0, 0.05, 0.3]),
)
BATCH = st.lists(st.tuples(ASKED, LOGITS), min_size=1, max_size=3)
SPARED = [3, 7]


def column(values: list[float], dtype: Any = np.float32) -> np.ndarray:
    return np.array(values, dtype=dtype)[:, None]


def filters(rows: list[Asked], xp: Any) -> Filters:
    return Filters(
        top_p=xp.asarray(column([row.top_p if row.top_p < 1 else math.inf for row in rows])),
        log_min_p=xp.asarray(
            column([math.log(row.min_p) if row.min_p else -math.inf for row in rows])
        ),
        top_k=xp.asarray(column([row.top_k or VOCAB for row in rows], np.int32)),
        uses_top_p=any(row.top_p < 1 for row in rows),
        uses_min_p=any(row.min_p > 0 for row in rows),
        uses_top_k=any(row.top_k > 0 for row in rows),
    )


def exclusion(rows: list[Asked], xp: Any) -> Exclusion | None:
    if all(math.isinf(row.xtc) for row in rows):
        return None
    exempt = np.isin(np.arange(VOCAB), SPARED)
    return Exclusion(xp.asarray(column([row.xtc for row in rows])), xp.asarray(exempt))


def kept(batch: list[tuple[Asked, list[float]]], xp: Any) -> list[list[int]]:
    """Tokens that stay, of the whole vocabulary."""
    rows = [row for row, _ in batch]
    logits = shifted(xp, xp.asarray(np.array([logits for _, logits in batch], dtype=np.float32)))
    total = xp.sum(xp.exp(logits), axis=-1, keepdims=True)
    left = np.array(narrowed(xp, logits, total, filters(rows, xp), exclusion(rows, xp)))
    return [np.flatnonzero(~np.isneginf(row)).tolist() for row in left]


def kept_of_candidates(batch: list[tuple[Asked, list[float]]]) -> list[list[int]]:
    rows = [row for row, _ in batch]
    logits = shifted(np, np.array([logits for _, logits in batch], dtype=np.float32))
    excluded, asked = exclusion(rows, np), filters(rows, np)
    tokens, few, total = candidates(logits, asked, ranked=excluded is None)
    if excluded is not None:
        excluded = attrs.evolve(excluded, exempt=excluded.exempt[tokens])
    left = narrowed(np, few, total, asked, excluded)
    return [sorted(ids[~np.isneginf(row)].tolist()) for ids, row in zip(tokens, left, strict=True)]


def kept_by_mlx_lm(row: Asked, logits: list[float]) -> list[int]:
    array = mx.array(logits)[None]
    array = array - mx.logsumexp(array, axis=-1, keepdims=True)
    if row.top_p < 1:
        array = sample_utils.apply_top_p(array, row.top_p)
    if row.min_p:
        array = sample_utils.apply_min_p(array, row.min_p)
    if not math.isinf(row.xtc):
        array = sample_utils.apply_xtc(array, 1.0, row.xtc, SPARED)
    if row.top_k:
        array = sample_utils.apply_top_k(array, row.top_k)
    return np.flatnonzero(~np.isneginf(np.array(array[0]))).tolist()


@given(BATCH)
def test_a_mixed_batch_keeps_what_mlx_lm_keeps_of_each_row(
    batch: list[tuple[Asked, list[float]]],
) -> None:
    expected = [kept_by_mlx_lm(row, logits) for row, logits in batch]
    assert kept(batch, np) == expected
    assert kept(batch, mx) == expected


@given(BATCH)
def test_leaving_hopeless_tokens_out_beforehand_changes_nothing(
    batch: list[tuple[Asked, list[float]]],
) -> None:
    assert kept_of_candidates(batch) == kept(batch, np)


def test_candidates_are_few_where_the_filters_are_strict() -> None:
    logits = shifted(np, np.random.default_rng(0).normal(0, 4, (2, 4096)).astype(np.float32))
    asked = attrs.evolve(filters([Asked(top_p=0.5, top_k=5)] * 2, np))
    tokens, few, _ = candidates(logits, asked, ranked=True)
    assert tokens.shape == few.shape == (2, 64)
    assert np.isfinite(few).sum(axis=-1).tolist() == [5, 5]


def test_a_neighbour_without_top_k_does_not_make_candidates_of_a_whole_vocabulary() -> None:
    logits = shifted(np, np.tile(-0.1 * np.arange(10_000, dtype=np.float32), (2, 1)))
    asked = filters([Asked(top_k=40), Asked(top_p=0.5)], np)
    tokens, _, _ = candidates(logits, asked, ranked=True)
    assert tokens.shape[1] < 500


def test_tokens_that_tie_at_a_threshold_stay_together() -> None:
    logits = [0.0, 0.0, -1.0, -1.0, *[-9.0] * (VOCAB - 4)]
    batch = [(Asked(top_k=3), logits), (Asked(top_p=0.8), logits)]
    assert kept(batch, np) == kept(batch, mx) == kept_of_candidates(batch) == [[0, 1, 2, 3]] * 2


@given(BATCH)
def test_how_many_candidates_a_neighbour_has_moves_no_bit_of_a_row(
    batch: list[tuple[Asked, list[float]]],
) -> None:
    logits = np.array([row for _, row in batch], dtype=np.float32)
    padded = np.pad(logits, ((0, 0), (0, BLOCK - VOCAB)), constant_values=-np.inf)
    further = np.pad(padded, ((0, 0), (0, 3 * BLOCK)), constant_values=-np.inf)
    asked = filters([row for row, _ in batch], np)
    asked = attrs.evolve(asked, top_k=np.minimum(asked.top_k, VOCAB))
    total = np.exp(logits).sum(axis=-1, keepdims=True)
    xtc = column([row.xtc for row, _ in batch])
    found = []
    for few in (padded, further):
        excluded = Exclusion(xtc, np.zeros(few.shape, dtype=bool))
        left = narrowed(np, few, total, asked, excluded)
        found.append(left[:, :VOCAB].tolist())
    assert found[0] == found[1]
