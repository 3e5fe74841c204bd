"""What a model folder's JSON files say: lengths, sizes, end tokens, sampling defaults. No MLX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from headrace.runtime.errors import Code, RequestError

# Names of the context window, by family, in the order of trust.
WINDOWS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
)
# transformers writes 1e30 where a tokenizer knows no limit.
NO_LIMIT = 1 << 30
# For models that state none, such as those without positions.
UNSTATED_WINDOW = 4096
DEFAULT_GROUP_SIZE, DEFAULT_BITS = 64, 4
# Sampling fields of generation_config.json, under the same names in the wire contract, 3.2.
RANGES: dict[str, Callable[[float], bool]] = {
    "temperature": lambda value: 0 <= value <= 2,
    "top_p": lambda value: 0 <= value <= 1,
    "top_k": lambda value: value >= 0 and value == int(value),
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 0 < value <= 10,
}


@attrs.frozen
class Config:
    """The JSON files of a model folder; those it need not have are empty."""

    model: dict[str, Any]
    generation: dict[str, Any] = attrs.field(factory=dict)
    tokenizer: dict[str, Any] = attrs.field(factory=dict)

    @property
    def text(self) -> dict[str, Any]:
        """The part that describes the text model, within which some families nest it."""
        nested = self.model.get("text_config")
        return {**self.model, **nested} if isinstance(nested, dict) else self.model

    @property
    def model_type(self) -> str:
        return str(self.model.get("model_type", ""))


@attrs.frozen
class Quantization:
    group_size: int
    bits: int


def read_config(folder: Path) -> Config:
    """Raises `RequestError` (load-failed) without a readable config.json."""
    model = _read(folder / "config.json")
    if model is None:
        reason = "The model cannot be loaded: it has no config.json that can be read."
        raise RequestError(Code.LOAD_FAILED, reason)
    generation = _read(folder / "generation_config.json") or {}
    return Config(model, generation, _read(folder / "tokenizer_config.json") or {})


def context_window(config: Config) -> int:
    """Tokens that the model was made for.

    The model's own statement counts. A tokenizer's `model_max_length` is often that of another
    model, so it is asked only where there is no other. YaRN's factor applies to the original
    length; whether `max_position_embeddings` has it in already differs from model to model.
    """
    stated = next((n for name in WINDOWS if (n := count(config.text.get(name)))), 0)
    if not stated:
        limit = count(config.tokenizer.get("model_max_length"))
        return limit if 0 < limit < NO_LIMIT else UNSTATED_WINDOW
    return max(stated, _stretched(config.text))


def _stretched(text: Mapping[str, Any]) -> int:
    scaling = text.get("rope_scaling") or text.get("rope_parameters")
    if not isinstance(scaling, dict):
        return 0
    original = count(scaling.get("original_max_position_embeddings"))
    factor = _number(scaling.get("factor"))
    yarn = scaling.get("rope_type", scaling.get("type")) == "yarn"
    return int(original * factor) if yarn and factor is not None else 0


def vocab_size(config: Config) -> int:
    """Rows of the embedding; 0 where the config does not say."""
    return count(config.text.get("vocab_size"))


def kv_values_per_token(config: Config) -> int:
    """Numbers that one token adds to the caches of all layers while no window is full; 0 where
    the config does not say. Layers with a state of fixed size add none."""
    text = config.text
    layers, heads = caching_layers(config), count(text.get("num_attention_heads"))
    if latent := count(text.get("kv_lora_rank")):  # the latent of multi-head latent attention
        return layers * (latent + count(text.get("qk_rope_head_dim")))
    head_size = count(text.get("head_dim")) or count(text.get("hidden_size")) // max(heads, 1)
    return layers * 2 * (count(text.get("num_key_value_heads")) or heads) * head_size


def caching_layers(config: Config) -> int:
    """Layers whose caches grow with the context."""
    layers = count(config.text.get("num_hidden_layers"))
    if isinstance(kinds := config.text.get("layer_types"), list):
        return sum("attention" in str(kind) and "linear" not in str(kind) for kind in kinds)
    interval = count(config.text.get("full_attention_interval"))
    return layers // interval if interval else layers


def windowed_layers(config: Config) -> tuple[int, int]:
    """How many of them keep no more than a sliding window, and its tokens; (0, 0) without."""
    text = config.text
    window = count(text.get("sliding_window"))
    if not window:
        return 0, 0
    if isinstance(kinds := text.get("layer_types"), list):
        return sum("sliding" in str(kind) for kind in kinds), window
    # Every so manieth layer sees all; a model that names no pattern is taken for one of the many
    # that state a window and use none.
    pattern = count(text.get("sliding_window_pattern"))
    layers = caching_layers(config)
    return (layers - layers // pattern, window) if pattern else (0, 0)


def end_tokens(config: Config) -> frozenset[int]:
    """The end tokens that the files state; a generation config overrides the model's."""
    for source in (config.generation, config.model, config.text):
        stated = source.get("eos_token_id")
        if found := frozenset(_ids(stated)):
            return found
    return frozenset()


def sampling_defaults(config: Config) -> dict[str, float | int]:
    """Sampling fields that the model's makers recommend; what is out of range is left out."""
    found = {name: _number(config.generation.get(name)) for name in RANGES}
    kept = {name: n for name, n in found.items() if n is not None and RANGES[name](n)}
    return {name: int(n) if name == "top_k" else n for name, n in kept.items()}


def quantization(model: Mapping[str, Any], module: str) -> Quantization:
    """How the weights of a module were quantized, by the config's default or its own entry."""
    general = model.get("quantization") or model.get("quantization_config")
    if not isinstance(general, dict):
        general = {}
    own = general.get(module)
    merged = {**general, **own} if isinstance(own, dict) else general
    return Quantization(
        group_size=count(merged.get("group_size")) or DEFAULT_GROUP_SIZE,
        bits=count(merged.get("bits")) or DEFAULT_BITS,
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        # Python's own parser, as makers write NaN and Infinity with it.
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known and math.isfinite(value) else None  # type: ignore[arg-type, return-value]


def count(value: object) -> int:
    """A whole number above zero, else 0: for what a config may leave out or spell as it likes."""
    number = _number(value)
    return int(number) if number is not None and number > 0 else 0


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [int(n) for n in values if isinstance(n, int) and not isinstance(n, bool)]
