"""Rows that are read: what comes out is what mlx-lm computes, whatever runs beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import Continuation, Pooling, RowRead, RowSpec

PREFIX = (5, 9, 2, 33, 4, 21, 8, 60, 17, 3, 44, 12)
CONTINUATIONS = (
    Continuation((7, 7, 1), (10, 11, 12)),
    Continuation((19,), (40, 2)),
    Continuation(tuple(range(20, 90)), (10, 11, 12, 13)),
)
# Of many lengths, in no order.
MANY = tuple(
    Continuation(tuple((7 * n + at) % 96 + 1 for at in range(1 + (n * 5) % 13)), (n + 1, n + 2))
    for n in range(24)
)
TEXTS = ((3, 1, 4), (1, 5, 9, 2, 6, 5, 3, 5, 8), (9,))
NO_DRAWS = Sampling(seed=0, temperature=0.0)


def asked(
    row: int,
    prefix: Sequence[int] = PREFIX,
    continuations: tuple[Continuation, ...] = CONTINUATIONS,
) -> RowSpec:
    return RowSpec(row, tuple(prefix), NO_DRAWS, 0, continuations=continuations)


def text(row: int, tokens: Sequence[int], pooling: Pooling) -> RowSpec:
    return RowSpec(row, tuple(tokens), NO_DRAWS, 0, pooling=pooling)


def read(hand: Any, spec: RowSpec, chunk: int = 1000) -> RowRead:
    """The row by itself, so many tokens at a time."""
    hand.engine.add(spec)
    found: list[RowRead] = []
    while left := hand.engine.remaining(spec.row):
        found += hand.engine.prefill([(spec.row, min(chunk, left))]).read
    hand.engine.remove(spec.row)
    (only,) = found
    return only


def logits_of(model: Any, tokens: Sequence[int], labels: Sequence[int]) -> list[float]:
    """mlx-lm's own, over the whole sequence at once."""
    logits = model(mx.array([list(tokens)]))[0, -1].astype(mx.float32)
    return [float(logits[label]) for label in labels]


def vector_of(model: Any, tokens: Sequence[int], pooling: Pooling) -> Any:
    hidden = np.asarray(model.model(mx.array([list(tokens)]))[0].astype(mx.float32))
    found = {"mean": hidden.mean(axis=0), "first": hidden[0], "last": hidden[-1]}[pooling.kind]
    found = found[: pooling.dimensions]
    return found / np.linalg.norm(found)


class Watched:
    """A model whose passes are written down, as rows and tokens. Passes of so many rows fail."""

    def __init__(
        self, model: Any, passes: list[tuple[int, ...]], refused_rows: int | None = None
    ) -> None:
        self._model, self._passes, self._refused = model, passes, refused_rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, tokens: mx.array, cache: Any = None) -> Any:
        self._passes.append(tokens.shape)
        if tokens.shape[0] == self._refused:
            raise MemoryError("no room for so many rows")
        return self._model(tokens, cache=cache)


class TestLabels:
    @pytest.mark.parametrize("chunk", [1, 5, 16, 1000])
    def test_their_logits_are_mlx_lms_own(self, model: Any, take_with: Any, chunk: int) -> None:
        found = read(take_with(model, lookahead=False), asked(1), chunk)
        for more, logits in zip(CONTINUATIONS, found.logits, strict=True):
            expected = logits_of(model, (*PREFIX, *more.tokens), more.labels)
            assert np.allclose(logits, expected, atol=2e-4)

    @pytest.mark.parametrize("chunk", [7, 40, 1000])
    def test_many_are_computed_together_and_each_is_as_if_alone(
        self, model: Any, take_with: Any, chunk: int
    ) -> None:
        hand = take_with(model, lookahead=False)
        found = read(hand, asked(1, continuations=MANY), chunk)
        for more, logits in zip(MANY, found.logits, strict=True):
            expected = logits_of(model, (*PREFIX, *more.tokens), more.labels)
            assert np.allclose(logits, expected, atol=2e-4)
            alone = read(hand, asked(2, continuations=(more,)))
            assert np.allclose(logits, alone.logits[0], atol=1e-4)
        assert hand.engine.kv_bytes() == 0

    def test_those_of_like_length_share_a_pass(self, tiny_llama: Any, take_with: Any) -> None:
        passes = list[tuple[int, ...]]()
        hand = take_with(Watched(tiny_llama, passes), lookahead=False)
        hand.engine.add(asked(1, continuations=(Continuation((1, 2, 3), (4, 5)),) * 5))
        hand.engine.prefill([(1, len(PREFIX) - 1)])
        del passes[:]
        result = hand.engine.prefill([(1, 13)])
        assert passes == [(3, 4)], "four tokens each, as many as fit whole"
        assert (result.prefilled, result.read) == (12, ())
        assert hand.engine.remaining(1) == 8
        (only,) = hand.engine.prefill([(1, 8)]).read
        assert len(only.logits) == 5

    def test_a_question_that_does_not_fit_behind_the_prompt_waits_for_the_next_chunk(
        self, tiny_llama: Any, take_with: Any
    ) -> None:
        hand = take_with(tiny_llama, lookahead=False)
        hand.engine.add(asked(1, continuations=(Continuation((1, 2, 3), (4, 5)),) * 2))
        result = hand.engine.prefill([(1, len(PREFIX) + 2)])
        assert result.prefilled == len(PREFIX) - 1
        assert hand.engine.remaining(1) == 8

    def test_one_that_fails_among_others_takes_its_row_and_no_other(
        self, tiny_llama: Any, take_with: Any, alone: Any
    ) -> None:
        passes = list[tuple[int, ...]]()
        broken = Watched(tiny_llama, passes, refused_rows=3)
        hand = take_with(broken, lookahead=False)
        hand.enter(1, [1, 2, 3, 4])
        hand.engine.add(asked(2, continuations=(Continuation((1, 2, 3), (4, 5)),) * 3))
        result = hand.engine.prefill([(2, hand.engine.remaining(2))])
        assert [failure.row for failure in result.failed] == [2]
        assert result.read == ()
        hand.decode(12)
        assert hand.given[1][:12] == alone(tiny_llama, [1, 2, 3, 4], 12)
        hand.engine.remove(1)
        assert hand.engine.kv_bytes() == 0

    def test_a_prompt_of_one_token_is_enough(self, model: Any, take_with: Any) -> None:
        found = read(take_with(model, lookahead=False), asked(1, prefix=(5,)))
        for more, logits in zip(CONTINUATIONS, found.logits, strict=True):
            expected = logits_of(model, (5, *more.tokens), more.labels)
            assert np.allclose(logits, expected, atol=2e-4)

    def test_they_do_not_depend_on_the_rows_beside(self, model: Any, take: Any) -> None:
        alone = read(take(model), asked(1))
        hand = take(model)
        hand.enter(2, [1, 2, 3, 4], max_tokens=30)
        hand.engine.add(asked(3))
        hand.add(4, [9, 8, 7, 6, 5])
        found: list[RowRead] = []
        hand.prefill(4, 2)
        while left := hand.engine.remaining(3):
            found += hand.engine.prefill([(3, min(9, left))]).read
            hand.decode()
        assert np.allclose(found[0].logits[0], alone.logits[0], atol=1e-5)
        for logits, expected in zip(found[0].logits, alone.logits, strict=True):
            assert np.allclose(logits, expected, atol=1e-4)

    def test_equal_rows_read_the_very_same(self, model: Any, take: Any) -> None:
        hand = take(model)
        assert read(hand, asked(1)).logits == read(hand, asked(2)).logits

    def test_neighbours_say_what_they_would_say_alone(
        self, model: Any, take: Any, alone: Any
    ) -> None:
        hand = take(model)
        hand.enter(1, [1, 2, 3, 4])
        hand.engine.add(asked(2))
        while left := hand.engine.remaining(2):
            hand.engine.prefill([(2, min(7, left))])
            hand.decode()
        hand.engine.remove(2)
        hand.decode(12)
        expected = alone(model, [1, 2, 3, 4], 12)
        assert hand.given[1][:12] == expected

    def test_a_row_may_leave_between_two_continuations(self, model: Any, take: Any) -> None:
        hand = take(model)
        hand.engine.add(asked(1))
        hand.engine.prefill([(1, len(PREFIX) + 3)])
        hand.engine.remove(1)
        assert hand.engine.kv_bytes() == 0
        assert read(hand, asked(2)).logits == read(take(model), asked(1)).logits

    def test_labels_that_are_no_tokens_are_refused(self, take: Any, tiny_llama: Any) -> None:
        spec = RowSpec(1, (1,), NO_DRAWS, 0, continuations=(Continuation((2,), (97,)),))
        with pytest.raises(ValueError, match="outside the vocabulary"):
            take(tiny_llama).engine.add(spec)


class TestVectors:
    @pytest.mark.parametrize("kind", ["mean", "first", "last"])
    @pytest.mark.parametrize("chunk", [2, 1000])
    def test_they_are_the_models_hidden_states(
        self, model: Any, take_with: Any, kind: Any, chunk: int
    ) -> None:
        hand = take_with(model, lookahead=False)
        for row, tokens in enumerate(TEXTS):
            pooling = Pooling(kind)
            found = np.frombuffer(read(hand, text(row, tokens, pooling), chunk).vector, "<f4")
            assert np.allclose(found, vector_of(model, tokens, pooling), atol=1e-5)

    def test_several_texts_are_computed_in_one_pass(self, model: Any, take_with: Any) -> None:
        hand = take_with(model, lookahead=False)
        poolings = [Pooling("mean"), Pooling("last", dimensions=7), Pooling("first")]
        for row, (tokens, pooling) in enumerate(zip(TEXTS, poolings, strict=True)):
            hand.engine.add(text(row, tokens, pooling))
        hand.add(9, [1, 2, 3])
        chunks = [(row, hand.engine.remaining(row)) for row in (0, 9, 1, 2)]
        result = hand.engine.prefill(chunks)
        assert result.prefilled == sum(count for _, count in chunks)
        assert [found.row for found in result.read] == [0, 1, 2]
        for found, tokens, pooling in zip(result.read, TEXTS, poolings, strict=True):
            vector = np.frombuffer(found.vector, "<f4")
            assert np.allclose(vector, vector_of(model, tokens, pooling), atol=1e-5)
        assert hand.engine.kv_bytes() > 0, "of the row that generates"
        hand.engine.remove(9)
        assert hand.engine.kv_bytes() == 0
