"""Grouped attention computes what mlx-lm's does, for the model it was given and for no other."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import base, llama

from headrace.actors.engine import forward, kv
from headrace.actors.engine.attention import group_query_heads, grouped_attention


def drawn(*shape: int) -> mx.array:
    return mx.random.normal(shape)


MASKS = {
    "none": None,
    "padding": mx.arange(7) >= mx.array([0, 3])[:, None, None, None],
    "added": mx.where(mx.arange(7) > 1, 0.0, -5.0)[None, None, None],
}


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("heads", [4, 6, 2], ids="{} heads".format)
@pytest.mark.parametrize("length", [1, 3], ids="{} tokens".format)
def test_it_is_the_attention_of_mlx_lm(mask: str, heads: int, length: int) -> None:
    queries, keys, values = drawn(2, heads, length, 8), drawn(2, 2, 7, 8), drawn(2, 2, 7, 5)
    arguments: dict[str, Any] = {"cache": None, "scale": 0.3, "mask": MASKS[mask]}
    ours = grouped_attention(queries, keys, values, **arguments)
    theirs = base.scaled_dot_product_attention(queries, keys, values, **arguments)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=2e-5, atol=2e-6)


def test_sinks_and_causal_masks_are_left_to_mlx() -> None:
    queries, keys, values = drawn(1, 4, 1, 8), drawn(1, 2, 7, 8), drawn(1, 2, 7, 8)
    for rest in ({"mask": "causal"}, {"mask": None, "sinks": drawn(4)}):
        arguments: dict[str, Any] = {"cache": None, "scale": 0.3, **rest}
        ours = grouped_attention(queries, keys, values, **arguments)
        theirs = base.scaled_dot_product_attention(queries, keys, values, **arguments)
        assert mx.array_equal(ours, theirs).item()


def model_of(heads: int, groups: int) -> Any:
    mx.random.seed(5)
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=48,
            num_hidden_layers=2,
            intermediate_size=64,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            rms_norm_eps=1e-5,
            vocab_size=97,
        )
    )


def logits(model: Any) -> np.ndarray:
    """Of two rows of different lengths, after a few decode steps."""
    caches = [kv.fresh(model) for _ in range(2)]
    for cache, prompt in zip(caches, ([1, 2, 3, 4, 5], [6]), strict=True):
        forward.advance(model, cache, prompt)
    batch = kv.joined(caches)
    return np.array([forward.next_logits(model, batch, mx.array([7, 8 + i])) for i in range(3)])


def test_a_model_computes_the_same_with_it() -> None:
    model = model_of(heads=6, groups=2)
    before = logits(model)
    assert group_query_heads(model) == 2
    np.testing.assert_allclose(logits(model), before, rtol=1e-4, atol=1e-5)
    assert type(model.layers[0].self_attn).__name__ == "Attention"
    assert isinstance(model.layers[0].self_attn, llama.Attention)


def test_no_other_model_is_touched() -> None:
    model, other = model_of(6, 2), model_of(6, 2)
    group_query_heads(model)
    assert type(other.layers[0].self_attn) is llama.Attention
    assert vars(llama)["scaled_dot_product_attention"] is base.scaled_dot_product_attention


def test_doing_it_again_changes_nothing() -> None:
    model = model_of(6, 2)
    group_query_heads(model)
    kinds = [type(layer.self_attn) for layer in model.layers]
    assert group_query_heads(model) == 0
    assert [type(layer.self_attn) for layer in model.layers] == kinds
