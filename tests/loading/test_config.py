"""Lengths, sizes and defaults are read from a folder's JSON files as the families write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.actors.engine.config import (
    Config,
    context_window,
    end_tokens,
    kv_values_per_token,
    quantization,
    read_config,
    sampling_defaults,
    vocab_size,
)
from headrace.runtime.errors import Code, RequestError

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


def window(model: dict[str, Any], tokenizer: dict[str, Any] | None = None) -> int:
    return context_window(Config(model, tokenizer=tokenizer or {}))


# ---- the context window -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"max_position_embeddings": 8192.0}, 8192),
        ({"n_positions": 1024}, 1024),
        ({"model_type": "vlm", "text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"max_position_embeddings": 32768, "rope_scaling": YARN}, 131072),
        ({"max_position_embeddings": 131072, "rope_scaling": YARN}, 131072),
        ({"max_position_embeddings": 32768, "rope_parameters": YARN}, 131072),
        ({"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4}}, 32768),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "original_max_position_embeddings": 8192,
                },
            },
            131072,
        ),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            },
            131072,
        ),
    ],
    ids=[
        "plain", "written as a float", "GPT-2", "nested", "YARN on the original length",
        "YARN already counted", "newer name", "YARN without an original", "Llama 3", "linear",
    ],
)  # fmt: skip
def test_a_context_window_is_what_the_model_states(model: dict[str, Any], tokens: int) -> None:
    # A tokenizer's limit, often another model's, changes nothing.
    assert window(model, {"model_max_length": 77}) == tokens


@pytest.mark.parametrize(("limit", "tokens"), [(2048, 2048), (10**30, 4096), (None, 4096)])
def test_a_model_that_states_none_has_its_tokenizers(limit: int | None, tokens: int) -> None:
    assert window({"model_type": "mamba"}, {"model_max_length": limit}) == tokens


# ---- sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ({"num_key_value_heads": 3, "head_dim": 64}, 30 * 2 * 3 * 64),
        ({"num_key_value_heads": 3}, 30 * 2 * 3 * 64),
        ({}, 30 * 2 * 9 * 64),
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, 30 * 576),
        ({"layer_types": ["linear_attention", "full_attention"] * 15}, 15 * 2 * 9 * 64),
        ({"full_attention_interval": 3}, 10 * 2 * 9 * 64),
    ],
    ids=["stated", "head size computed", "no grouping", "latent", "hybrid", "hybrid by interval"],
)
def test_a_token_adds_keys_and_values_in_each_layer_that_keeps_them(
    model: dict[str, Any], values: int
) -> None:
    base = {"num_hidden_layers": 30, "num_attention_heads": 9, "hidden_size": 576}
    assert kv_values_per_token(Config({**base, **model})) == values


def test_the_vocabulary_may_be_nested() -> None:
    assert vocab_size(Config({"text_config": {"vocab_size": 9}})) == 9
    assert vocab_size(Config({})) == 0


def test_a_module_may_be_quantized_in_its_own_way() -> None:
    model = {"quantization": {"group_size": 64, "bits": 4, "lm_head": {"bits": 8}}}
    assert (quantization(model, "lm_head").bits, quantization(model, "lm_head").group_size) == (
        8,
        64,
    )
    assert quantization(model, "other").bits == 4
    assert quantization({}, "other").group_size == 64


# ---- end tokens and defaults --------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "generation", "tokens"),
    [
        ({"eos_token_id": 2}, {}, {2}),
        ({"eos_token_id": 2}, {"eos_token_id": [3, 4]}, {3, 4}),
        ({"eos_token_id": 2}, {"eos_token_id": None}, {2}),
        ({"text_config": {"eos_token_id": [5]}}, {}, {5}),
        ({"eos_token_id": True}, {}, set()),
        ({}, {}, set()),
    ],
)
def test_end_tokens_are_those_of_the_generation_config_if_it_has_any(
    model: dict[str, Any], generation: dict[str, Any], tokens: set[int]
) -> None:
    assert end_tokens(Config(model, generation)) == tokens


@pytest.mark.parametrize(
    ("generation", "defaults"),
    [
        ({}, {}),
        (
            {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05},
            {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05},
        ),
        ({"top_k": 20.0, "temperature": 1}, {"top_k": 20, "temperature": 1}),
        ({"temperature": 5.0, "top_p": -1, "top_k": 1.5, "min_p": "0"}, {}),
        ({"temperature": True, "top_k": None, "max_length": 20}, {}),
    ],
    ids=["none", "all", "whole numbers", "out of range", "of other types"],
)
def test_defaults_are_what_the_contract_allows(
    generation: dict[str, Any], defaults: dict[str, Any]
) -> None:
    assert sampling_defaults(Config({}, generation)) == defaults


# ---- files --------------------------------------------------------------------------------


def test_files_are_read_as_python_writes_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"limit": Infinity, "vocab_size": 5}')
    (tmp_path / "generation_config.json").write_text("{")
    config = read_config(tmp_path)
    assert vocab_size(config) == 5
    assert config.generation == config.tokenizer == {}


@pytest.mark.parametrize("text", [None, "", "[]", "{", "[" * 100_000], ids=repr)
def test_a_folder_needs_a_config(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(RequestError) as caught:
        read_config(tmp_path)
    assert caught.value.code is Code.LOAD_FAILED


KEYS = [
    "max_position_embeddings", "rope_scaling", "text_config", "vocab_size", "num_hidden_layers",
    "num_attention_heads", "layer_types", "kv_lora_rank", "hidden_size", "eos_token_id", "top_k",
    "temperature", "quantization", "model_max_length", "factor", "rope_type", "model_type",
]  # fmt: skip
objects = st.dictionaries(st.sampled_from(KEYS), values, max_size=6)
configs = st.dictionaries(st.sampled_from(KEYS), values | objects, max_size=8)


@given(model=configs, generation=configs, tokenizer=configs)
def test_nonsense_in_the_files_raises_nothing(
    model: dict[str, Any], generation: dict[str, Any], tokenizer: dict[str, Any]
) -> None:
    config = Config(json.loads(json.dumps(model)), generation, tokenizer)
    assert context_window(config) > 0
    assert vocab_size(config) >= 0
    assert kv_values_per_token(config) >= 0
    assert quantization(config.model, "x").bits > 0
    assert all(isinstance(token, int) for token in end_tokens(config))
    assert sampling_defaults(config).keys() <= {
        "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
    }  # fmt: skip
