"""What a row takes, predicted from caches and from the config, against what it then takes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import attrs
import mlx.core as mx
import pytest
from mlx_lm.models.cache import CacheList

from headrace.actors.engine import footprint, forward, kv, needs
from headrace.actors.engine.config import Config
from headrace.runtime.footprint import Footprint

CHUNK = 512
LLAMA = {
    "model_type": "llama",
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 97,
}
# Two of three layers see a window.
GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "vocab_size": 97,
    "sliding_window": 300,
    "sliding_window_pattern": 3,
}
# Multi-head latent attention.
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
}
# A state of fixed size, and nothing else.
MAMBA = {
    "model_type": "mamba",
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 96,
    "state_size": 8,
    "num_hidden_layers": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_rank": 8,
}
# Layers with a state beside layers with keys and values.
LFM = {
    "model_type": "lfm2",
    "vocab_size": 97,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16384,
    "norm_eps": 1e-5,
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_dim": 48,
    "block_ff_dim": 64,
    "block_multiple_of": 16,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
    "full_attn_idxs": [1],
}
FAMILIES = {"llama": LLAMA, "gemma3_text": GEMMA, "deepseek_v3": DEEPSEEK, "mamba": MAMBA}
FAMILIES |= {"lfm2": LFM}


def made(settings: dict[str, Any]) -> Any:
    """A random model, its weights not computed yet."""
    module = importlib.import_module(f"mlx_lm.models.{settings['model_type']}")
    mx.random.seed(1)
    return module.Model(module.ModelArgs.from_dict(settings))


def expected(settings: dict[str, Any]) -> Footprint:
    config = Config(settings)
    return needs.expected(config, 4, needs.needs(config, 4, fused_attention=False))


@pytest.fixture(scope="module")
def model_of() -> Callable[[str], Any]:
    @functools.cache
    def model(family: str) -> Any:
        built = made(FAMILIES[family])
        mx.eval(built.parameters())
        return built

    return model


def filled(model: Any, tokens: int) -> Any:
    """A row of so many tokens, the last one by a step of decoding. All but the first and the last
    are written into its caches without being computed, as only their number counts here."""
    cache = kv.fresh(model)
    if tokens > 1:
        forward.advance(model, cache, [1])
    for start in range(1, tokens - 1, CHUNK):
        for layer in cache:
            write(layer, min(CHUNK, tokens - 1 - start))
    mx.eval(forward.next_logits(model, cache, mx.array([1])), kv.arrays(cache))
    return cache


def write(layer: Any, count: int) -> None:
    if isinstance(layer, CacheList):
        for part in layer.caches:
            write(part, count)
    elif getattr(layer, "keys", None) is not None:
        (_, heads, _, size), width = layer.keys.shape, layer.values.shape[-1]
        layer.update_and_fetch(
            mx.zeros((1, heads, count, size)), mx.zeros((1, heads, count, width))
        )


CASES = [
    *(("llama", tokens) for tokens in (1, 1000, 4000, 8000)),
    *(("gemma3_text", tokens) for tokens in (100, 1000, 4000, 8000)),
    *(("deepseek_v3", tokens) for tokens in (300, 1000)),
    *(("mamba", tokens) for tokens in (100, 1000)),
    *(("lfm2", tokens) for tokens in (100, 1000)),
]


@pytest.mark.parametrize(("family", "tokens"), CASES)
def test_a_rows_caches_take_what_was_foreseen_within_one_step_of_tokens(
    family: str, tokens: int, model_of: Callable[[str], Any]
) -> None:
    model = model_of(family)
    foreseen = footprint.of_model(model, Footprint())
    measured = kv.nbytes(filled(model, tokens))
    step_bytes = sum(group.bytes_per_token for group in foreseen.groups) * foreseen.step_tokens
    assert abs(foreseen.row_bytes(tokens) - measured) <= step_bytes
    if tokens >= 1000:
        assert foreseen.row_bytes(tokens) == pytest.approx(measured, rel=0.35)
    if tokens >= 4000:
        assert foreseen.row_bytes(tokens) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_whose_weights_were_never_read_shows_the_same(
    family: str, model_of: Callable[[str], Any]
) -> None:
    before = mx.get_active_memory()
    lazily = footprint.of_model(made(FAMILIES[family]), Footprint())
    assert mx.get_active_memory() - before < 10_000
    assert lazily == footprint.of_model(model_of(family), Footprint())


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "deepseek_v3"])
def test_the_config_alone_says_as_much_where_it_names_the_layers(
    family: str, model_of: Callable[[str], Any]
) -> None:
    arithmetic = expected(FAMILIES[family])
    shown = footprint.of_model(model_of(family), arithmetic)
    by_window = {group.window: group.bytes_per_token for group in shown.groups}
    assert {group.window: group.bytes_per_token for group in arithmetic.groups} == by_window


def test_windows_and_states_stop_growing(model_of: Callable[[str], Any]) -> None:
    gemma = footprint.of_model(model_of("gemma3_text"), Footprint())
    full = next(group for group in gemma.groups if group.window is None)
    assert gemma.row_bytes(8192) - gemma.row_bytes(4096) == 4096 * full.bytes_per_token
    mamba = footprint.of_model(model_of("mamba"), Footprint())
    assert mamba.row_bytes(1) == mamba.row_bytes(100_000) > 0


@pytest.mark.parametrize("tokens", [1024, 2048])
def test_a_chunk_is_computed_within_what_was_foreseen_for_it_c2(
    tokens: int, model_of: Callable[[str], Any]
) -> None:
    """Given a long prompt, when its last chunk is computed, then the bytes that are there for a
    while besides its caches are no more than foreseen, and not far from it."""
    model = model_of("llama")
    foreseen = footprint.of_model(model, expected(LLAMA))
    cache = filled(model, tokens - CHUNK)
    mx.clear_cache()
    held = mx.get_active_memory()
    mx.reset_peak_memory()
    forward.advance(model, cache, [1] * CHUNK)
    grown = mx.get_active_memory() - held
    taken = mx.get_peak_memory() - held - max(0, grown)
    allowed = foreseen.prefill_bytes(CHUNK, tokens)
    assert 0.98 * taken <= allowed <= 1.5 * taken


def test_rows_that_decode_together_take_as_much_as_the_longest() -> None:
    alone = Footprint(groups=expected(LLAMA).groups, step_tokens=256)
    together = attrs.evolve(alone, together=True)
    assert alone.batch_bytes([10, 1000]) == alone.row_bytes(10) + alone.row_bytes(1000)
    assert together.batch_bytes([10, 1000]) == 2 * alone.row_bytes(1000)
    assert together.batch_bytes([]) == 0
    assert together.batch_bytes([10, 1000], spare=1) == 3 * alone.row_bytes(1000)
    apart = attrs.evolve(together, bands=True)
    assert apart.batch_bytes([10, 1000]) == alone.batch_bytes([10, 1000])
    assert apart.batch_bytes([200, 1000, 300]) == 2 * alone.row_bytes(300) + alone.row_bytes(1000)
    # Places are free only beside rows that share a buffer.
    assert apart.batch_bytes([10, 1000], spare=1) == apart.batch_bytes([10, 1000])
    assert apart.batch_bytes([10, 1000, 20], spare=1) == apart.batch_bytes([10, 1000, 20, 20])
