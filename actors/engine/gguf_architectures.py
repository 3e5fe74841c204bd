"""Which GGUF architectures become which mlx-lm model, and how their tensors differ."""

from __future__ import annotations

import re
from typing import Any

import attrs
import mlx.core as mx
import numpy as np

from headrace.actors.engine.gguf_header import Header
from headrace.runtime.errors import Code, RequestError

Json = dict[str, Any]

_TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LLAMA_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA3_LAYER = {
    **_LLAMA_LAYER,
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_TENSOR_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")
_ROPE_FACTORS = "rope_freqs.weight"


def refused(reason: str) -> RequestError:
    return RequestError(Code.LOAD_FAILED, f"this GGUF file cannot be converted: {reason}")


@attrs.frozen
class Llama:
    """Llama and what is built like it (SmolLM2, Mistral, TinyLlama)."""

    heads: int
    kv_heads: int
    config: Json

    @classmethod
    def of(cls, header: Header) -> Llama:
        field = _fields(header, "llama")
        if header.metadata.get("llama.expert_count"):
            raise refused("mixtures of experts are not supported")
        heads = field("attention.head_count")
        kv_heads = field("attention.head_count_kv", heads)
        if not isinstance(heads, int) or not isinstance(kv_heads, int):
            raise refused("head counts that differ by layer are not supported")
        hidden = field("embedding_length")
        names = {tensor.name for tensor in header.tensors}
        config = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": hidden,
            "num_hidden_layers": field("block_count"),
            "intermediate_size": field("feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": field("attention.key_length", hidden // heads),
            "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
            "vocab_size": _rows(header, "token_embd.weight"),
            "max_position_embeddings": field("context_length"),
            "rope_theta": field("rope.freq_base", 10000.0),
            "rope_scaling": _linear_scaling(header, "llama"),
            "attention_bias": "blk.0.attn_q.bias" in names,
            "mlp_bias": "blk.0.ffn_up.bias" in names,
            "tie_word_embeddings": "output.weight" not in names,
        }
        return cls(heads, kv_heads, config)

    def place(self, name: str, value: mx.array) -> tuple[str, mx.array] | None:
        """Name and content of a tensor as mlx-lm's model has it; None for one that became
        part of the config."""
        if name == _ROPE_FACTORS:
            self.config["rope_scaling"] = _llama3_scaling(value, self.config)
            return None
        placed = _mlx_name(name, _LLAMA_LAYER)
        if ".attn_q." in name:
            value = _half_split(value, self.heads)
        elif ".attn_k." in name:
            value = _half_split(value, self.kv_heads)
        return placed, value


@attrs.frozen
class Gemma3:
    """Gemma 3's text part: windows on five layers of six, norms around the parts."""

    config: Json

    @classmethod
    def of(cls, header: Header) -> Gemma3:
        field = _fields(header, "gemma3")
        heads, head_dim = field("attention.head_count"), field("attention.key_length")
        config = {
            "architectures": ["Gemma3ForCausalLM"],
            "model_type": "gemma3_text",
            "hidden_size": field("embedding_length"),
            "num_hidden_layers": field("block_count"),
            "intermediate_size": field("feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": field("attention.head_count_kv", heads),
            "head_dim": head_dim,
            # Not in the file. The 27B model alone scales by another number.
            "query_pre_attn_scalar": 168 if field("block_count") == 62 else head_dim,
            "rms_norm_eps": field("attention.layer_norm_rms_epsilon"),
            "vocab_size": _rows(header, "token_embd.weight"),
            "max_position_embeddings": field("context_length"),
            "rope_theta": field("rope.freq_base"),
            "rope_local_base_freq": 10000.0,
            "rope_scaling": _linear_scaling(header, "gemma3"),
            "sliding_window": field("attention.sliding_window"),
            "sliding_window_pattern": 6,
            "tie_word_embeddings": True,
        }
        return cls(config)

    def place(self, name: str, value: mx.array) -> tuple[str, mx.array]:
        # The file holds what a norm multiplies by; the model adds the one itself.
        return _mlx_name(name, _GEMMA3_LAYER), value - 1 if "norm" in name else value


def architecture_of(header: Header) -> Llama | Gemma3:
    """Raises `RequestError` (load-failed) that names what is not supported."""
    match header.metadata.get("general.architecture"):
        case "llama":
            return Llama.of(header)
        case "gemma3":
            return Gemma3.of(header)
        case other:
            raise refused(f"architecture {other!r} is not supported; supported: llama, gemma3")


def _fields(header: Header, prefix: str) -> Any:
    def field(name: str, default: Any = None) -> Any:
        value = header.metadata.get(f"{prefix}.{name}", default)
        if value is None:
            raise refused(f"the metadata field {prefix}.{name} is missing")
        return value

    return field


def _rows(header: Header, name: str) -> int:
    for tensor in header.tensors:
        if tensor.name == name:
            return tensor.shape[0]
    raise refused(f"tensor {name} is missing")


def _mlx_name(name: str, layer_names: dict[str, str]) -> str:
    if match := _TENSOR_NAME.fullmatch(name):
        layer, part, kind = match.groups()
        known = (_TOP_NAMES if layer is None else layer_names).get(part)
        if known is not None:
            where = "" if layer is None else f"model.layers.{layer}."
            return f"{where}{known}.{kind}"
    raise refused(f"tensor {name} is not known")


def _half_split(value: mx.array, heads: int) -> mx.array:
    """Undo the row order that GGUF gives the query and key rows.

    GGUF pairs rotary dimensions as neighbours (0,1), (2,3), ..; mlx-lm's models pair the first
    half of a head with the second.
    """
    rows, *rest = value.shape
    pairs = value.reshape(heads, rows // heads // 2, 2, *rest)
    return pairs.swapaxes(1, 2).reshape(value.shape)


def _linear_scaling(header: Header, prefix: str) -> Json | None:
    kind = header.metadata.get(f"{prefix}.rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind != "linear":
        raise refused(f"rope scaling {kind!r} is not supported; supported: none, linear, llama3")
    return {"rope_type": "linear", "factor": _fields(header, prefix)("rope.scaling.factor")}


def _llama3_scaling(factors: mx.array, config: Json) -> Json:
    """Llama 3's scaling, which GGUF stores as one factor per rotary pair.

    All published models use the bands 1 and 4 over 8192 trained positions (Llama 3.1 model
    card); the largest factor is the scale itself. A file that does not fit is refused.
    """
    low, high, trained = 1.0, 4.0, 8192
    found = np.array(factors.astype(mx.float32)).astype(np.float64)
    scale = float(found.max())
    pairs: int = config["head_dim"] // 2
    wavelengths = 2 * np.pi * config["rope_theta"] ** (np.arange(pairs) / pairs)
    held = ((trained / wavelengths - low) / (high - low)).clip(0.0, 1.0)
    expected = 1 / ((1 - held) / scale + held)
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-3):
        raise refused("its rope factors are not those of Llama 3")
    return {
        "rope_type": "llama3",
        "factor": scale,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": trained,
    }
