"""Logits at some places of a pass are the whole pass's there, and the model is as it was after."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama

from headrace.actors.engine import kv
from headrace.actors.engine.backbone import backbone, logits_at

TOKENS = mx.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])


@pytest.fixture(scope="module")
def model() -> Any:
    mx.random.seed(5)
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=48,
            num_hidden_layers=2,
            intermediate_size=64,
            num_attention_heads=4,
            rms_norm_eps=1e-5,
            vocab_size=97,
            tie_word_embeddings=False,
        )
    )


class Closed:
    """A model that shows nothing of what it is made of."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        logits: mx.array = self._model(tokens, cache=cache)
        return logits


@pytest.mark.parametrize("wrap", [lambda model: model, Closed], ids=["open", "closed"])
@pytest.mark.parametrize("places", [(4, 4), (0, 2)])
def test_they_are_those_of_the_whole_pass(model: Any, wrap: Any, places: tuple[int, ...]) -> None:
    whole = np.array(model(TOKENS, cache=kv.fresh(model)))
    found = np.array(logits_at(wrap(model), TOKENS, kv.fresh(model), places))
    expected = [whole[row, place] for row, place in enumerate(places)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_head_is_given_no_more_than_these(model: Any) -> None:
    seen = []

    class Head:
        def __call__(self, hidden: mx.array) -> mx.array:
            seen.append(hidden.shape)
            return hidden

    head, model.lm_head = model.lm_head, Head()
    try:
        logits_at(model, TOKENS, kv.fresh(model), (1, 2))
    finally:
        model.lm_head = head
    assert seen == [(2, 1, 48)]


def test_the_model_is_as_it_was_also_after_a_failure(model: Any) -> None:
    kind = type(backbone(model))

    class Broken(list[Any]):
        def __getitem__(self, layer: Any) -> Any:
            raise RuntimeError("no cache")

    logits_at(model, TOKENS, kv.fresh(model), (1, 2))
    with pytest.raises(RuntimeError, match="no cache"):
        logits_at(model, TOKENS, Broken(), (1, 2))
    assert type(backbone(model)) is kind
    assert model(TOKENS, cache=kv.fresh(model)).shape == (2, 5, 97)
