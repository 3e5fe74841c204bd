"""The tokens of a prompt are scored as the prompt is computed, whatever it is cut into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from headrace.actors.engine import prefill
from headrace.actors.engine.scoring import scores, scores_of_all
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec, TokenScores

PROMPT = (5, 17, 3, 40, 22, 9, 61, 8, 30, 2)
GREEDY = Sampling(seed=1, temperature=0.0)


def spec(row: int, max_tokens: int = 3, **more: Any) -> RowSpec:
    return RowSpec(row, PROMPT, GREEDY, max_tokens, logprobs=2, scores_prompt=True, **more)


def expected(model: Any) -> list[TokenScores]:
    """From one pass of the model over the whole prompt."""
    logits = np.asarray(model(mx.array([PROMPT]))[0].astype(mx.float32))
    return [scores(logits[at], token, 2) for at, token in enumerate(PROMPT[1:])]


def assert_close(found: Sequence[TokenScores], wanted: Sequence[TokenScores]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert [token for token, _ in one.top] == [token for token, _ in other.top]
        assert [p for _, p in one.top] == pytest.approx([p for _, p in other.top], abs=1e-4)


def found(engine: Any, row: int, chunk: int) -> list[TokenScores]:
    scored = list[TokenScores]()
    while left := engine.remaining(row):
        (part,) = engine.prefill([(row, min(chunk, left))]).prompt_scores
        assert (part.row, part.first) == (row, 1 + len(scored))
        scored += part.scores
    return scored


@pytest.mark.parametrize("chunk", [1, 3, 9])
def test_every_token_but_the_first_is_scored(
    model: Any, take: Callable[..., Any], chunk: int
) -> None:
    engine = take(model).engine
    engine.add(spec(1))
    assert_close(found(engine, 1, chunk), expected(model))


def test_logits_are_held_for_a_few_tokens_at_a_time(
    model: Any, take: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefill, "SCORED_BYTES", 4 * 97 * 2)
    engine = take(model).engine
    engine.add(spec(1))
    assert_close(found(engine, 1, 9), expected(model))


def test_what_follows_is_what_follows_without_scores(
    model: Any, take: Callable[..., Any], alone: Any
) -> None:
    hand = take(model)
    hand.engine.add(spec(1, max_tokens=12))
    hand.given[1] = []
    found(hand.engine, 1, 4)
    hand.decode(12)
    assert hand.given[1] == alone(model, PROMPT, 12)


def test_prompts_that_are_computed_beside_it_do_not_matter(
    model: Any, take: Callable[..., Any], alone: Any
) -> None:
    hand = take(model)
    for row in (2, 3):
        hand.add(row, PROMPT[: row + 2])
    hand.engine.add(spec(1))
    hand.given[1] = []
    result = hand.engine.prefill([(row, hand.engine.remaining(row)) for row in (2, 1, 3)])
    (part,) = result.prompt_scores
    assert_close(part.scores, expected(model))
    assert result.prefilled == 3 + 9 + 4
    hand.decode(3)
    assert hand.given[2] == alone(model, PROMPT[:4], 3)


class TestRowsThatMaySayNothing:
    def test_never_decode(self, model: Any, take: Callable[..., Any], alone: Any) -> None:
        hand = take(model)
        hand.engine.add(spec(1, max_tokens=0, siblings=(7, 8)))
        hand.enter(2, PROMPT[:3])
        assert_close(found(hand.engine, 1, 9), expected(model))
        hand.decode(4)
        assert hand.given == {2: alone(model, PROMPT[:3], 4)}
        for row in (1, 7, 8, 2):
            hand.engine.remove(row)
        assert hand.engine.kv_bytes() == 0

    def test_are_complete_at_once_with_a_prompt_of_one_token(
        self, model: Any, take: Callable[..., Any]
    ) -> None:
        engine = take(model).engine
        engine.add(RowSpec(1, (5,), GREEDY, 0, logprobs=1, scores_prompt=True))
        assert engine.remaining(1) == 0
        assert engine.decode().tokens == ()


def test_many_places_at_once_are_scored_as_one_by_one() -> None:
    chance = np.random.default_rng(3)
    logits = chance.normal(size=(20, 50)).astype(np.float32)
    logits[3, 7] = -np.inf
    tokens = [int(t) for t in chance.integers(0, 50, 20)]
    tokens[3] = 7
    together = scores_of_all(mx.array(logits), tokens, 4)
    assert_close(together, [scores(row, t, 4) for row, t in zip(logits, tokens, strict=True)])
    assert together[3].logprob == -9999.0
    assert scores_of_all(mx.array(logits), tokens, 0)[0].top == ()
