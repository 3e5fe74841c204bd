"""What a CPU computes in another way is what mlx-lm computes, for the one model at hand."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import activations, base, llama

from headrace.actors.engine import forward, kv
from headrace.actors.engine.attention import cpu_attention
from headrace.actors.engine.cpu import compute_on_cpu
from headrace.actors.engine.exponentials import cpu_swiglu


def drawn(*shape: int) -> mx.array:
    return mx.random.normal(shape)


# A few scores are left to MLX, many are numpy's.
LENGTHS = {"few": 7, "many": 2101}


def masks(tokens: int, length: int) -> dict[str, Any]:
    """For two rows, of which the second begins after three of its places."""
    places = mx.arange(length)
    begun = places >= mx.array([0, 3])[:, None, None, None]
    seen = places <= mx.arange(length - tokens, length)[:, None]
    return {
        "none": None,
        "causal": "causal",
        "padding": begun & seen,
        "one for all rows": seen,
        "added": mx.where(places > 1, 0.0, -5.0)[None, None, None],
    }


@pytest.mark.parametrize("mask", masks(1, 7), ids=str)
@pytest.mark.parametrize("heads", [4, 6, 2], ids="{} heads".format)
@pytest.mark.parametrize("tokens", [1, 3], ids="{} tokens".format)
@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_the_attention_of_mlx_lm(mask: str, heads: int, tokens: int, length: str) -> None:
    long = LENGTHS[length]
    queries, keys, values = drawn(2, heads, tokens, 8), drawn(2, 2, long, 8), drawn(2, 2, long, 5)
    arguments: dict[str, Any] = {"cache": None, "scale": 3.0, "mask": masks(tokens, long)[mask]}
    ours = cpu_attention(queries, keys, values, **arguments)
    theirs = base.scaled_dot_product_attention(queries, keys, values, **arguments)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=5e-5, atol=5e-6)


def test_rows_longer_than_a_block_are_whole() -> None:
    queries, keys, values = drawn(1, 3, 70, 8), drawn(1, 1, 4001, 8), drawn(1, 1, 4001, 8)
    arguments: dict[str, Any] = {"cache": None, "scale": 0.3, "mask": "causal"}
    ours = cpu_attention(queries, keys, values, **arguments)
    theirs = base.scaled_dot_product_attention(queries, keys, values, **arguments)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=5e-5, atol=5e-6)


def test_scores_that_would_overflow_an_exponential_do_not() -> None:
    queries, keys, values = drawn(1, 2, 1, 8), 1e4 * drawn(1, 2, 2000, 8), drawn(1, 2, 2000, 8)
    arguments: dict[str, Any] = {"cache": None, "scale": 1.0, "mask": None}
    ours = cpu_attention(queries, keys, values, **arguments)
    theirs = base.scaled_dot_product_attention(queries, keys, values, **arguments)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=5e-5, atol=5e-6)


@pytest.mark.parametrize("rest", [{"sinks": mx.array([0.1] * 4)}, {"dtype": mx.bfloat16}], ids=str)
def test_sinks_and_short_floats_are_left_to_mlx(rest: dict[str, Any]) -> None:
    kind = rest.pop("dtype", mx.float32)
    queries, keys, values = (drawn(1, 4, n, 8).astype(kind) for n in (2, 700, 700))
    arguments: dict[str, Any] = {"cache": None, "scale": 0.3, "mask": None, **rest}
    ours = cpu_attention(queries, keys, values, **arguments)
    theirs = base.scaled_dot_product_attention(queries, keys, values, **arguments)
    assert mx.array_equal(ours, theirs).item()


@pytest.mark.parametrize("size", [3, 5000])
def test_a_gate_is_that_of_mlx_lm(size: int) -> None:
    gate, x = 40 * drawn(2, size), drawn(2, size)
    kept = np.array(gate)
    ours, theirs = cpu_swiglu(gate, x), activations.swiglu(gate, x)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.array(gate), kept)


def test_a_gate_far_below_nothing_is_closed() -> None:
    gate = mx.full((5000,), -1e4)
    assert mx.abs(cpu_swiglu(gate, gate)).max().item() == 0


def model_of(heads: int, groups: int) -> Any:
    mx.random.seed(5)
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=48,
            num_hidden_layers=3,
            intermediate_size=64,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            rms_norm_eps=1e-5,
            vocab_size=97,
        )
    )


def logits(model: Any, prompts: list[list[int]]) -> np.ndarray:
    """Of two rows of different lengths, after a few decode steps."""
    caches = [kv.fresh(model) for _ in range(2)]
    for cache, prompt in zip(caches, prompts, strict=True):
        forward.advance(model, cache, prompt)
    batch = kv.joined(caches)
    return np.array([forward.next_logits(model, batch, mx.array([7, 8 + i])) for i in range(3)])


@pytest.mark.parametrize("length", [5, 90])
def test_a_model_computes_the_same_with_it(length: int) -> None:
    model, prompts = model_of(heads=6, groups=2), [[i % 90 for i in range(length)], [6]]
    before = logits(model, prompts)
    # Two layers of three, an attention and a gate in each.
    assert compute_on_cpu(model) == 4
    np.testing.assert_allclose(logits(model, prompts), before, rtol=1e-4, atol=1e-5)
    assert isinstance(model.layers[0].self_attn, llama.Attention)
    assert type(model.layers[-1].mlp) is llama.MLP


def test_no_other_model_is_touched() -> None:
    model, other = model_of(6, 2), model_of(6, 2)
    compute_on_cpu(model)
    assert type(other.layers[0].self_attn) is llama.Attention
    assert vars(llama)["scaled_dot_product_attention"] is base.scaled_dot_product_attention


def test_doing_it_again_changes_nothing() -> None:
    model = model_of(6, 2)
    compute_on_cpu(model)
    kinds = [type(layer.self_attn) for layer in model.layers]
    assert compute_on_cpu(model) == 0
    assert [type(layer.self_attn) for layer in model.layers] == kinds
