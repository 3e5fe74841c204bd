"""Several answers to one prompt share its prefill, and scores are those of the model itself."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from headrace.actors.engine.batch import BatchEngine
from headrace.actors.engine.constrain import RowMatcher
from headrace.actors.engine.scoring import scores
from headrace.runtime.contracts import Sampling
from headrace.runtime.ports import RowSpec, RowToken

VOCAB = 97
PROMPT = (5, 17, 3, 80, 41, 9)
WARM = Sampling(seed=7, temperature=1.0)


def engine_of(model: Any, *, lookahead: bool) -> BatchEngine:
    return BatchEngine(model, end_tokens=(), vocab_size=VOCAB, lookahead=lookahead)


def run(engine: BatchEngine, spec: RowSpec, steps: int) -> dict[int, list[RowToken]]:
    """The tokens of a row and its siblings; the prompt is computed in one chunk."""
    engine.add(spec)
    if engine.remaining(spec.row):
        result = engine.prefill([(spec.row, engine.remaining(spec.row))])
        assert result.prefilled == len(spec.tokens) - 1
    told: dict[int, list[RowToken]] = {}
    for _ in range(steps):
        for token in engine.decode().tokens:
            told.setdefault(token.row, []).append(token)
    return told


def ids(told: list[RowToken]) -> list[int]:
    return [token.token for token in told]


@pytest.mark.parametrize("lookahead", [False, True])
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1]], ids=["long", "one token"])
def test_each_answer_is_what_it_would_be_alone(
    tiny_llama: Any, lookahead: bool, prompt: tuple[int, ...]
) -> None:
    engine = engine_of(tiny_llama, lookahead=lookahead)
    told = run(engine, RowSpec(1, prompt, WARM, 12, siblings=(2, 3)), 12)
    for choice, row in enumerate((1, 2, 3)):
        alone = engine_of(tiny_llama, lookahead=lookahead)
        expected = run(alone, RowSpec(9, prompt, WARM, 12, choice=choice), 12)
        assert ids(told[row]) == ids(expected[9])
    assert ids(told[1]) != ids(told[2])


def test_the_prompt_is_computed_once_and_everything_is_given_back(tiny_llama: Any) -> None:
    engine = engine_of(tiny_llama, lookahead=False)
    run(engine, RowSpec(1, PROMPT, WARM, 4, siblings=(2, 3)), 2)
    for row in (1, 2, 3):
        engine.remove(row)
    assert engine.kv_bytes() == 0
    assert repr(engine) == "<BatchEngine 0 rows, 0 ready, 0 in 0 batches>"


def test_a_request_that_leaves_before_its_prompt_is_complete_takes_all_with_it(
    tiny_llama: Any,
) -> None:
    engine = engine_of(tiny_llama, lookahead=False)
    engine.add(RowSpec(1, PROMPT, WARM, 4, siblings=(2, 3)))
    engine.prefill([(1, 2)])
    for row in (1, 2, 3):
        engine.remove(row)
    assert engine.decode().tokens == ()
    assert engine.kv_bytes() == 0


@pytest.mark.parametrize("lookahead", [False, True])
def test_scores_are_the_models_own_and_only_for_who_asks(tiny_llama: Any, lookahead: bool) -> None:
    engine = engine_of(tiny_llama, lookahead=lookahead)
    engine.add(RowSpec(2, PROMPT, Sampling(seed=1, temperature=0.0), 5))
    engine.prefill([(2, len(PROMPT) - 1)])
    told = run(engine, RowSpec(1, PROMPT, Sampling(seed=1, temperature=0.0), 5, logprobs=3), 5)
    assert all(token.scores is None for token in told[2])
    context = list(PROMPT)
    for token in told[1]:
        logits = np.array(tiny_llama(mx.array([context]))[0, -1].astype(mx.float32))
        expected = logits - np.logaddexp.reduce(logits.astype(np.float64))
        assert token.scores is not None
        assert token.scores.logprob == pytest.approx(expected[token.token], abs=1e-4)
        best = sorted(range(VOCAB), key=lambda index: -expected[index])[:3]
        assert [index for index, _ in token.scores.top] == best
        context.append(token.token)
    assert ids(told[1]) == ids(told[2])


def test_a_token_without_a_chance_has_a_number_all_the_same() -> None:
    found = scores(np.array([0.0, -np.inf, 1.0], dtype=np.float32), 1, 2)
    assert found.logprob == -9999.0
    assert [index for index, _ in found.top] == [2, 0]


class Breaking(RowMatcher):
    """A mask that lets everything pass and breaks after two tokens."""

    def __init__(self) -> None:
        self.words = -(-VOCAB // 32)
        self.broken: str | None = None
        self.complete = False
        self._left = 2

    def fork(self) -> "Breaking":
        return Breaking()

    def consume(self, token: int) -> None:
        self._left -= 1

    def fill(self, mask: Any) -> None:
        mask[:] = -1
        if self._left == 0:
            self.broken = "the grammar is lost"


def test_a_row_whose_grammar_is_lost_fails_without_another_word(tiny_llama: Any) -> None:
    engine = engine_of(tiny_llama, lookahead=False)
    engine.add(RowSpec(1, PROMPT[:1], WARM, 9, mask=Breaking()))
    engine.add(RowSpec(2, PROMPT[:1], WARM, 9))
    assert [len(engine.decode().tokens) for _ in range(2)] == [2, 2]
    result = engine.decode()
    assert [token.row for token in result.tokens] == [2]
    assert [(lost.row, lost.reason) for lost in result.failed] == [(1, "the grammar is lost")]
    assert [token.row for token in engine.decode().tokens] == [2]
