"""Rows of very different lengths lie apart, and nobody can tell from what they are given."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import base
from mlx_lm.models.cache import KVCache

from headrace.actors.engine import kv
from headrace.actors.engine.attention import banded_attention, cpu_attention
from headrace.actors.engine.bands import BandedKVCache, Parts
from headrace.actors.engine.probe import sharing
from headrace.actors.engine.slots import SlotKVCache
from headrace.runtime import banding
from headrace.runtime.footprint import Footprint, KvGroup

HEADS, DIM = 2, 4
# What the ledger counts for such rows.
FOOTPRINT = Footprint((KvGroup(2 * HEADS * DIM * 4),), step_tokens=256, together=True, bands=True)
VOCAB = 97


class Rows:
    """A banded cache and a record of each row side by side, in the cache's order."""

    def __init__(self) -> None:
        self.draw = np.random.default_rng(0)
        self.record: list[np.ndarray] = []
        self.cache = BandedKVCache()

    def admit(self, *tokens: int) -> None:
        caches: list[Any] = []
        for count in tokens:
            cache, keys = KVCache(), self.draw.normal(size=(1, HEADS, count, DIM))
            if count:
                cache.update_and_fetch(mx.array(keys), mx.array(-keys))
            self.record.append(keys[0].astype(np.float32))
            caches.append(cache)
        self.record = [self.record[row] for row in self.cache.admit(caches)]

    def keep(self, rows: list[int]) -> None:
        order = self.cache.arranged(rows)
        assert sorted(order) == rows
        self.cache.filter(order)
        self.record = [self.record[row] for row in order]

    def step(self) -> None:
        keys = self.draw.normal(size=(len(self.record), HEADS, 1, DIM)).astype(np.float32)
        self.cache.update_and_fetch(mx.array(keys), mx.array(-keys))
        self.record = [
            np.concatenate([old, new], axis=1) for old, new in zip(self.record, keys, strict=True)
        ]

    def check(self) -> None:
        assert np.array(self.cache.offset).tolist() == [row.shape[1] for row in self.record]
        sizes = [self.cache.row_nbytes(index) for index in range(len(self.record))]
        assert sum(sizes) == pytest.approx(self.cache.nbytes, rel=0.01)
        for index, row in enumerate(self.record):
            if row.shape[1]:
                alone = self.cache.extract(index)
                np.testing.assert_array_equal(np.array(alone.keys[0, :, : alone.offset]), row)
                np.testing.assert_array_equal(np.array(alone.values[0, :, : alone.offset]), -row)


@pytest.mark.parametrize("seed", range(10))
def test_any_history_keeps_every_rows_keys_and_values(seed: int) -> None:
    draw, rows = random.Random(seed), Rows()
    rows.admit(*(draw.choice([0, 1, 7, 300, 1300]) for _ in range(draw.randint(1, 4))))
    for _ in range(25):
        match draw.choice(["step", "step", "admit", "leave", "give back"]):
            case "step":
                rows.step()
            case "admit" if len(rows.record) < 9:
                rows.admit(*(draw.choice([3, 80, 600, 2100]) for _ in range(draw.randint(1, 2))))
            case "leave" if len(rows.record) > 1:
                count = draw.randint(1, len(rows.record) - 1)
                rows.keep(sorted(draw.sample(range(len(rows.record)), count)))
            case "give back":
                rows.cache.give_back()
        rows.check()


@pytest.mark.parametrize("seed", range(5))
def test_the_ledger_counts_what_rows_take_that_come_one_after_the_other(seed: int) -> None:
    draw, rows, lengths = random.Random(seed), Rows(), list[int]()
    for _ in range(7):
        lengths.append(draw.choice([3, 90, 200, 250, 400, 700, 1300]))
        rows.admit(lengths[-1])
        assert rows.cache.nbytes == FOOTPRINT.batch_bytes(lengths)
    for _ in range(70):
        rows.step()
        lengths = [length + 1 for length in lengths]
    assert rows.cache.nbytes == FOOTPRINT.batch_bytes(lengths)


def test_a_long_row_joins_short_ones_at_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    rows.admit(50, 60, 55)
    made: list[int] = []
    monkeypatch.setattr(SlotKVCache, "_allocate", lambda *_: made.append(1))
    rows.admit(2000)
    assert (rows.cache.bands, made) == (2, [])
    rows.check()


def drawn(*shape: int) -> mx.array:
    return mx.random.normal(shape)


@pytest.mark.parametrize("attention", [cpu_attention, banded_attention], ids=lambda f: f.__name__)
def test_attention_looks_at_one_band_after_the_other(attention: Callable[..., Any]) -> None:
    queries, sizes = drawn(3, 6, 1, 8), {2: 5, 1: 900}
    keys = Parts(drawn(rows, 2, length, 8) for rows, length in sizes.items())
    values = Parts(drawn(rows, 2, length, 5) for rows, length in sizes.items())
    masks = Parts(mx.arange(n)[None, None, None] >= 2 for n in sizes.values())
    for mask in (masks, None):
        ours = attention(queries, keys, values, cache=None, scale=0.3, mask=mask)
        first = 0
        for part, rows in enumerate(sizes):
            theirs = base.scaled_dot_product_attention(
                queries[first : first + rows],
                keys[part],
                values[part],
                cache=None,
                scale=0.3,
                mask=None if mask is None else mask[part],
            )
            found = np.array(ours[first : first + rows])
            np.testing.assert_allclose(found, np.array(theirs), rtol=5e-5, atol=5e-6)
            first += rows


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that differs in length has a band of its own."""
    monkeypatch.setattr(banding, "BAND_TOKENS", 0)


PROMPTS = [random.Random(n).choices(range(VOCAB), k=n) for n in (6, 40, 2, 6, 23)]


def test_rows_in_bands_say_what_they_say_alone(
    tiny_llama: Any, take: Callable[..., Any], alone: Any, narrow: None
) -> None:
    """They come and go, in every order, and whoever goes leaves what the next one begins with."""
    expected = [alone(tiny_llama, prompt, 12) for prompt in PROMPTS]
    for gone in range(len(PROMPTS)):
        hand = take(tiny_llama)
        assert hand.engine.sharing.bands
        hand.engine.limit_cache(1 << 20)
        for row, prompt in enumerate(PROMPTS):
            hand.enter(row, prompt)
            hand.decode(2)
        before = hand.engine.kv_bytes()
        hand.engine.remove(gone)
        assert hand.engine.kv_bytes() < before
        hand.enter(9, [*PROMPTS[gone], *expected[gone][:1], 5])
        hand.decode(12)
        assert not hand.failed
        assert hand.engine.reused(9) > 0
        for row in set(range(len(PROMPTS))) - {gone}:
            assert hand.given[row] == expected[row], (gone, row)
        again = [*PROMPTS[gone], *expected[gone][:1], 5]
        assert hand.given[9] == alone(tiny_llama, again, 12)


def test_caches_of_other_kinds_are_not_banded(tiny_gemma: Any, take_with: Any) -> None:
    assert not take_with(tiny_gemma, lookahead=False).engine.sharing.bands
    assert not kv.can_be_banded(kv.fresh(tiny_gemma))


def test_an_attention_that_knows_no_bands_gets_none(tiny_llama: Any) -> None:
    assert not sharing(tiny_llama, VOCAB).bands
