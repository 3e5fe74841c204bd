"""A converted model computes what the original computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.models import gemma3_text, llama
from tokenizers import Tokenizer

from headrace.actors.engine import gguf as converter
from headrace.actors.engine.gguf import convert_gguf

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Write: TypeAlias = Callable[..., Path]

HEADS, KV_HEADS, HIDDEN = 4, 2, 64
# The names in the file, by those of mlx-lm's model.
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


GEMMA_NAMES = {
    **GGUF_NAMES,
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name: str, names: dict[str, str] = GGUF_NAMES) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in names:
        return f"{names[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{names[part]}.{kind}"


def interleaved(rows: Array, heads: int) -> Array:
    """The row order of llama.cpp's files: within a head 0, d/2, 1, d/2+1, and so on."""
    size = len(rows) // heads
    order = [
        head * size + half * size // 2 + pair
        for head in range(heads)
        for pair in range(size // 2)
        for half in (0, 1)
    ]
    return rows[order]


def parameters(model: llama.Model | gemma3_text.Model) -> list[tuple[str, mx.array]]:
    flat: Any = tree_flatten(model.parameters())
    return list(flat)


def weights_for_gguf(model: llama.Model) -> dict[str, Array]:
    found = {}
    for name, value in parameters(model):
        rows = np.array(value)
        if "q_proj" in name:
            rows = interleaved(rows, HEADS)
        elif "k_proj" in name:
            rows = interleaved(rows, KV_HEADS)
        found[gguf_name(name)] = rows
    return found


def tiny_llama(vocabulary: int, **changes: Any) -> llama.Model:
    mx.random.seed(7)
    config = {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        **changes,
    }
    model = llama.Model(llama.ModelArgs.from_dict(config))
    # Norm weights are ones at first, which would hide a mix-up.
    lengths = ((name, value) for name, value in parameters(model) if value.ndim == 1)
    model.load_weights([(n, 1 + 0.1 * mx.random.normal(v.shape)) for n, v in lengths], strict=False)
    mx.eval(model.parameters())
    return model


def tiny_gemma(vocabulary: int) -> gemma3_text.Model:
    mx.random.seed(8)
    args = gemma3_text.ModelArgs(
        model_type="gemma3_text",
        hidden_size=HIDDEN,
        # The sixth layer is the first without a window.
        num_hidden_layers=6,
        intermediate_size=96,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=32,
        query_pre_attn_scalar=32,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        sliding_window=4,
        vocab_size=vocabulary,
    )
    model = gemma3_text.Model(args)
    drawn = [(n, 0.1 * mx.random.normal(v.shape)) for n, v in parameters(model)]
    model.load_weights([pair for pair in drawn if not pair[0].startswith("lm_head")], strict=False)
    model.tie_word_embeddings = True
    mx.eval(model.parameters())
    return model


def logits(model: Any) -> Array:
    return np.array(model(mx.array([[5, 9, 2, 40, 77, 8]])))


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own head"])
def test_the_model_computes_as_before(
    write: Write, target: Path, byte_tokenizer: Tokenizer, tied: bool
) -> None:
    original = tiny_llama(byte_tokenizer.get_vocab_size(), tie_word_embeddings=tied)
    convert_gguf(write(weights_for_gguf(original)), target, "float32")
    model, _ = load(str(target))[:2]
    assert np.allclose(logits(model), logits(original), atol=1e-5)


def test_gemmas_norms_and_windows_compute_as_before(
    write: Write, target: Path, byte_tokenizer: Tokenizer
) -> None:
    original = tiny_gemma(byte_tokenizer.get_vocab_size())
    weights = {
        # llama.cpp's files hold the whole factor of a norm, the model's own its distance from one.
        gguf_name(name, GEMMA_NAMES): np.array(value) + (1 if "norm" in name else 0)
        for name, value in parameters(original)
        if not name.startswith("lm_head")
    }

    def describe(writer: gguf.GGUFWriter) -> None:
        writer.add_block_count(6)
        writer.add_key_length(32)
        writer.add_sliding_window(4)

    source = write(weights, edit=describe, architecture="gemma3")
    convert_gguf(source, target, "float32")
    model, _ = load(str(target))[:2]
    assert model.make_cache()[0].max_size == 4
    assert np.allclose(logits(model), logits(original), atol=1e-5)


@pytest.mark.parametrize("name", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_quantized_matrices_are_expanded_exactly(
    write: Write, target: Path, byte_tokenizer: Tokenizer, name: str
) -> None:
    kind = gguf.GGMLQuantizationType[name]
    weights = weights_for_gguf(tiny_llama(byte_tokenizer.get_vocab_size()))
    convert_gguf(write(weights, kind), target, "float32")
    stored: Any = mx.load(str(target / "model.safetensors"))
    expected = gguf.dequantize(gguf.quantize(weights["blk.0.ffn_up.weight"], kind), kind)
    found = np.array(stored["model.layers.0.mlp.up_proj.weight"])
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


def test_the_dtype_is_the_one_asked_for(
    write: Write, target: Path, byte_tokenizer: Tokenizer
) -> None:
    weights = weights_for_gguf(tiny_llama(byte_tokenizer.get_vocab_size()))
    convert_gguf(write(weights), target, "bfloat16")
    stored: Any = mx.load(str(target / "model.safetensors"))
    assert {value.dtype for value in stored.values()} == {mx.bfloat16}
    assert json.loads((target / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_a_large_model_is_cut_into_files_that_load_together(
    write: Write,
    target: Path,
    byte_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(converter, "_SHARD_BYTES", 100_000)
    original = tiny_llama(byte_tokenizer.get_vocab_size())
    convert_gguf(write(weights_for_gguf(original)), target, "float32")
    files = sorted(file.name for file in target.glob("model*.safetensors"))
    count = len(files)
    assert count > 1
    assert files == [f"model-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)]
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(files)
    assert index["metadata"]["total_size"] == sum(value.nbytes for _, value in parameters(original))
    model, _ = load(str(target))[:2]
    assert np.allclose(logits(model), logits(original), atol=1e-5)


def test_llama_3_scaling_is_recognised_by_its_factors(
    write: Write, target: Path, byte_tokenizer: Tokenizer
) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    changes = {"rope_scaling": scaling, "rope_theta": 500000.0, "max_position_embeddings": 131072}
    original = tiny_llama(byte_tokenizer.get_vocab_size(), **changes)
    plain = 500000.0 ** (np.arange(0, 16, 2) / 16)
    # mlx-lm keeps the scaled wavelengths; the file has their ratio to the plain ones.
    factors = np.array(original.model.layers[0].self_attn.rope._freqs) / plain
    assert factors.max() == pytest.approx(32.0)
    weights = {**weights_for_gguf(original), "rope_freqs.weight": factors.astype(np.float32)}
    convert_gguf(write(weights, edit=lambda w: w.add_rope_freq_base(500000.0)), target, "float32")
    assert json.loads((target / "config.json").read_text())["rope_scaling"] == scaling
    model, _ = load(str(target))[:2]
    assert np.allclose(logits(model), logits(original), atol=1e-5)
