"""Logits at some places of a pass are the whole pass's there, and the model is as it was after."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from headrace.actors.engine import kv
from headrace.actors.engine.backbone import backbone, logits_at

TOKENS = mx.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])


class Closed:
    """A model that shows nothing of what it is made of."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
        logits: mx.array = self._model(tokens, cache=cache)
        return logits


@pytest.mark.parametrize("wrap", [lambda model: model, Closed], ids=["open", "closed"])
@pytest.mark.parametrize("places", [(4, 4), (0, 2)])
def test_they_are_those_of_the_whole_pass(
    tiny_llama: Any, wrap: Any, places: tuple[int, ...]
) -> None:
    whole = np.array(tiny_llama(TOKENS, cache=kv.fresh(tiny_llama)))
    found = np.array(logits_at(wrap(tiny_llama), TOKENS, kv.fresh(tiny_llama), places))
    expected = [whole[row, place] for row, place in enumerate(places)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_head_is_given_no_more_than_these(tiny_llama: Any) -> None:
    seen = []

    class Head:
        def __call__(self, hidden: mx.array) -> mx.array:
            seen.append(hidden.shape)
            return hidden

    head, tiny_llama.lm_head = tiny_llama.lm_head, Head()
    try:
        logits_at(tiny_llama, TOKENS, kv.fresh(tiny_llama), (1, 2))
    finally:
        tiny_llama.lm_head = head
    assert seen == [(2, 1, 48)]


def test_the_model_is_as_it_was_also_after_a_failure(tiny_llama: Any) -> None:
    kind = type(backbone(tiny_llama))

    class Broken(list[Any]):
        def __getitem__(self, layer: Any) -> Any:
            raise RuntimeError("no cache")

    logits_at(tiny_llama, TOKENS, kv.fresh(tiny_llama), (1, 2))
    with pytest.raises(RuntimeError, match="no cache"):
        logits_at(tiny_llama, TOKENS, Broken(), (1, 2))
    assert type(backbone(tiny_llama)) is kind
    assert tiny_llama(TOKENS, cache=kv.fresh(tiny_llama)).shape == (2, 5, 97)
