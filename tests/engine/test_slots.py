"""The slot cache against a plain record of what each row's keys and values are."""

from __future__ import annotations

import random
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from headrace.actors.engine.slots import SlotKVCache

HEADS, DIM = 2, 4


class Rows:
    """Slot cache and record side by side; numbers are drawn, so no two tokens are alike."""

    def __init__(self, lengths: list[int]) -> None:
        self.draw = np.random.default_rng(0)
        self.record: list[np.ndarray] = []
        self.cache: Any = SlotKVCache([self.alone(length) for length in lengths])

    def tokens(self, rows: int, count: int) -> np.ndarray:
        return self.draw.normal(size=(rows, HEADS, count, DIM)).astype(np.float32)

    def alone(self, length: int) -> KVCache:
        """A row's own cache, noted in the record as its last row."""
        cache, keys = KVCache(), self.tokens(1, length)
        if length:
            cache.update_and_fetch(mx.array(keys), mx.array(-keys))
        self.record.append(keys[0])
        return cache

    def admit(self, *lengths: int) -> None:
        self.cache.admit([self.alone(length) for length in lengths])

    def select(self, order: list[int]) -> None:
        self.cache.filter(order)
        self.record = [self.record[row] for row in order]

    def step(self) -> None:
        keys = self.tokens(len(self.record), 1)
        self.cache.update_and_fetch(mx.array(keys), mx.array(-keys))
        self.record = [
            np.concatenate([old, new], axis=1) for old, new in zip(self.record, keys, strict=True)
        ]

    def check(self) -> None:
        padding: Any = self.cache.left_padding.tolist()
        assert self.cache.offset.tolist() == [row.shape[1] for row in self.record]
        if self.cache.keys is None:
            return
        keys, values = map(np.array, self.cache.keys_and_values())
        for index, row in enumerate(self.record):
            np.testing.assert_array_equal(keys[index, :, padding[index] :], row)
            np.testing.assert_array_equal(values[index, :, padding[index] :], -row)
            assert not keys[index, :, : padding[index]].any()


@pytest.mark.parametrize("seed", range(20))
def test_any_history_keeps_every_rows_keys_and_values(seed: int) -> None:
    draw = random.Random(seed)
    rows = Rows([draw.choice([0, 1, 7, 300]) for _ in range(draw.randint(1, 5))])
    for _ in range(40):
        match draw.choice(["step", "step", "admit", "leave", "shuffle", "give back"]):
            case "step":
                rows.step()
            case "admit" if len(rows.record) < 9:
                rows.admit(*(draw.choice([0, 3, 80, 270]) for _ in range(draw.randint(1, 2))))
            case "leave" if len(rows.record) > 1:
                gone = draw.randrange(len(rows.record))
                last = len(rows.record) - 1
                order = list(range(last))
                if gone < last:
                    order[gone] = last
                rows.select(order)
            case "shuffle":
                order = draw.sample(range(len(rows.record)), draw.randint(1, len(rows.record)))
                rows.select(order)
            case "give back":
                rows.cache.give_back()
        rows.check()


def test_a_row_may_be_taken_out_into_a_cache_of_its_own() -> None:
    rows = Rows([5, 3, 9])
    rows.step()
    row = rows.cache.extract(1)
    keys, values = map(np.array, row.keys_and_values())
    np.testing.assert_array_equal(keys[0], rows.record[1])
    np.testing.assert_array_equal(values[0], -rows.record[1])
    assert row.offset == 4


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each time that buffers were made anew, the slots they have. Whether MLX then writes into
    a buffer or copies it first depends on when its own thread lets go of it, so where buffers lie
    in memory shows nothing that could be held to."""
    made: list[int] = []
    allocate = SlotKVCache._allocate

    def noted(cache: SlotKVCache, slots: int, *rest: Any) -> None:
        made.append(slots)
        allocate(cache, slots, *rest)

    monkeypatch.setattr(SlotKVCache, "_allocate", noted)
    return made


def test_leaving_and_joining_within_the_room_there_is_makes_no_buffers(
    allocated: list[int],
) -> None:
    rows = Rows([5] * 8)
    rows.step()
    assert allocated == [9]
    rows.select([0, 1, 7, 3, 4, 5, 6])
    rows.admit(3, 6)
    rows.step()
    assert allocated == [9]
    rows.check()
    rows.admit(3)
    assert allocated == [9, 11]
    rows.check()


def test_room_that_is_too_much_is_given_back() -> None:
    rows = Rows([5] * 16)
    rows.select(list(range(12)))
    assert rows.cache.slots == 18
    rows.select(list(range(11)))
    assert rows.cache.slots == 11
    rows.admit(4)
    assert rows.cache.slots == 13
    rows.cache.give_back()
    assert rows.cache.slots == 12
    rows.check()


def test_padding_that_all_rows_share_goes_when_a_row_leaves() -> None:
    rows = Rows([300, 5, 7])
    rows.select([2, 1])
    assert rows.cache.left_padding.tolist() == [0, 2]
    rows.check()


def test_a_slot_does_not_inherit_what_cannot_be_masked() -> None:
    # A key of NaN would survive any mask: 0 x NaN is NaN.
    rows = Rows([5, 5])
    rows.cache.update_and_fetch(mx.full((2, HEADS, 1, DIM), mx.nan), mx.zeros((2, HEADS, 1, DIM)))
    rows.select([0])
    rows.admit(2)
    keys, _ = rows.cache.keys_and_values()
    assert not mx.isnan(keys[1]).any().item()


def test_only_the_slots_in_use_count() -> None:
    rows = Rows([5] * 8)
    of_one = 2 * HEADS * 256 * DIM * 4
    assert rows.cache.nbytes == 8 * of_one
    rows.select(list(range(7)))
    assert rows.cache.nbytes == 7 * of_one


def test_prompts_are_not_computed_in_it() -> None:
    cache: Any = Rows([5]).cache
    with pytest.raises(NotImplementedError):
        cache.prepare(lengths=[3], right_padding=[0])
