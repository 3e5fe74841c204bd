"""What goes wrong in a row's own work ends that row, and a broken step ends its rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec

PROMPT = [5, 6, 7, 8, 9, 10]


class Fragile:
    """A model that breaks while `broken` says so of the tokens it is given."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.layers = model.layers
        self.broken: Callable[[mx.array], bool] = lambda tokens: False

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        if self.broken(tokens):
            raise RuntimeError("out of memory")
        logits: mx.array = self.model(tokens, cache=cache)
        return logits


@pytest.fixture
def fragile(tiny_llama: Any) -> Fragile:
    return Fragile(tiny_llama)


def test_a_failing_prefill_ends_its_row_alone(
    fragile: Fragile, take: Callable[..., Any], alone: Any
) -> None:
    hand = take(fragile)
    hand.enter(0, PROMPT)
    hand.decode(2)
    fragile.broken = lambda tokens: tokens.size > 1
    hand.add(1, PROMPT)
    result = hand.engine.prefill([(1, 3)])
    assert [failure.row for failure in result.failed] == [1]
    assert result.failed[0].reason == "RuntimeError: out of memory"
    assert result.prefilled == 0
    hand.decode(10)
    assert hand.given[0] == alone(fragile.model, PROMPT, 12)
    assert hand.engine.remaining(0) == 0
    with pytest.raises(KeyError):
        hand.engine.remaining(1)


def test_a_failing_prefill_of_several_ends_these(
    fragile: Fragile, take: Callable[..., Any]
) -> None:
    hand = take(fragile)
    hand.enter(0, PROMPT)
    hand.add(1, PROMPT)
    hand.add(2, [*PROMPT, 1])
    hand.add(3, PROMPT)
    fragile.broken = lambda tokens: tokens.size > 1
    hand.prefill_together(1, 2)
    fragile.broken = lambda tokens: False
    assert sorted(hand.failed) == [1, 2]
    hand.prefill(3)
    hand.decode(2)
    assert [len(hand.given[row]) for row in range(4)] == [2, 0, 0, 2]


def test_a_broken_step_ends_its_rows_and_the_engine_goes_on(
    fragile: Fragile, take: Callable[..., Any], alone: Any
) -> None:
    hand = take(fragile)
    for row in (0, 1):
        hand.enter(row, PROMPT)
    hand.add(2, PROMPT)
    hand.prefill(2, 2)
    hand.decode(2)
    fragile.broken = lambda tokens: True
    hand.decode()
    fragile.broken = lambda tokens: False
    assert hand.failed == dict.fromkeys((0, 1), "RuntimeError: out of memory")
    hand.prefill(2)
    hand.enter(3, PROMPT)
    hand.decode(12)
    expected = alone(fragile.model, PROMPT, 12)
    assert hand.given[2] == hand.given[3] == expected
    for row in (2, 3):
        hand.engine.remove(row)
    assert repr(hand.engine) == "<BatchEngine 0 rows, 0 ready, 0 in 0 batches>"
    assert hand.engine.kv_bytes() == 0


def test_a_row_that_has_all_its_tokens_does_not_fail_with_the_others(
    fragile: Fragile, take: Callable[..., Any]
) -> None:
    hand = take(fragile)
    hand.enter(0, PROMPT, max_tokens=2)
    hand.enter(1, PROMPT)
    hand.decode(2)
    fragile.broken = lambda tokens: True
    hand.decode()
    assert list(hand.failed) == [1]
    assert len(hand.given[0]) == 2


@pytest.mark.parametrize(
    "spec",
    [
        RowSpec(0, (5, 97), Sampling(seed=0), 3),
        RowSpec(0, (-1,), Sampling(seed=0), 3),
        RowSpec(0, (5,), Sampling(seed=0, logit_bias=((97, 1.0),)), 3),
    ],
    ids=["token too large", "token below zero", "bias out of range"],
)
def test_tokens_outside_the_vocabulary_are_refused(
    tiny_llama: Any, spec: RowSpec, take: Callable[..., Any]
) -> None:
    hand = take(tiny_llama)
    with pytest.raises(ValueError, match="outside the vocabulary"):
        hand.engine.add(spec)
    hand.engine.add(RowSpec(0, (5,), Sampling(seed=0), 3))


def test_a_row_number_in_use_is_refused(tiny_llama: Any, take: Callable[..., Any]) -> None:
    hand = take(tiny_llama)
    hand.add(0, PROMPT)
    with pytest.raises(ValueError, match="already"):
        hand.engine.add(RowSpec(0, (5,), Sampling(seed=0), 3))


@pytest.mark.parametrize(
    "chunks",
    [[(0, 6)], [(0, 0)], [(0, 3), (1, 5)], [(0, 5), (1, 6)]],
    ids=["the last token too", "none", "a part among several", "too many of several"],
)
def test_chunks_that_break_the_terms_are_refused(
    tiny_llama: Any, chunks: list[tuple[int, int]], take: Callable[..., Any]
) -> None:
    hand = take(tiny_llama)
    hand.add(0, PROMPT)
    hand.add(1, PROMPT)
    with pytest.raises(ValueError, match="cannot prefill"):
        hand.engine.prefill(chunks)
    assert hand.engine.remaining(0) == 5
