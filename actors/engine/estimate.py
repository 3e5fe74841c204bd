"""What a model will be once it is loaded, from its files alone. No MLX."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

from headrace.actors.engine import config as facts
from headrace.actors.engine import needs
from headrace.actors.engine.config import Config, read_config
from headrace.actors.engine.embedding_files import is_encoder, read_embedder
from headrace.actors.engine.headers import (
    Numerics,
    WeightFile,
    fingerprint,
    read_weight_files,
    stored_dtype,
    weights_bytes,
)
from headrace.runtime.contracts import ModelInfo
from headrace.runtime.footprint import Footprint

VALUE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
# Besides the weights, what decides whether two runs give the same numbers.
VERSIONED = ("headrace", "mlx", "mlx-lm")


def estimate(folder: Path, numerics: Numerics) -> ModelInfo:
    """`weights_bytes` is an upper bound, `kv_bytes_per_token` the arithmetic of the config; both
    are measured by a load, and so is `vocab_size` where the config leaves it out (0).

    Raises `RequestError` (load-failed) for a folder without config or with broken weight files.
    """
    return described(folder, read_config(folder), read_weight_files(folder), numerics)


def described(
    folder: Path,
    config: Config,
    files: tuple[WeightFile, ...],
    numerics: Numerics,
    backend: str = "",
) -> ModelInfo:
    """The same of files that have been read; `backend` is part of the fingerprint."""
    versions = [importlib.metadata.version(name) for name in VERSIONED]
    settings = json.dumps(config.model, sort_keys=True)
    value_type = "float32" if numerics == "float32" else stored_dtype(files)
    value_bytes = VALUE_BYTES[value_type]
    # Weights are unpacked where there is only a CPU, which has no fused attention either.
    computing = needs.needs(config, value_bytes, fused_attention=numerics != "float32")
    embedder, encodes = read_embedder(folder, config), is_encoder(config)
    window = facts.context_window(config)
    return ModelInfo(
        id=folder.name,
        context_window=min(window, embedder.limit_tokens or window) if embedder else window,
        vocab_size=facts.vocab_size(config),
        weights_bytes=weights_bytes(files, config.model, numerics),
        kv_bytes_per_token=0 if encodes else facts.kv_values_per_token(config) * value_bytes,
        fingerprint=fingerprint(files, settings, numerics, backend, *versions),
        defaults=facts.sampling_defaults(config),
        model_type=config.model_type,
        dtype=_dtype(config, value_type, numerics),
        has_chat_template=_has_chat_template(folder, config),
        footprint=Footprint() if encodes else needs.expected(config, value_bytes, computing),
        embedding=None if embedder is None else embedder.traits,
    )


def _dtype(config: Config, value_type: str, numerics: Numerics) -> str:
    """`float32`, or with packed weights `bfloat16, 4-bit`."""
    packed = config.model.get("quantization") or config.model.get("quantization_config")
    if numerics == "float32" or not packed:
        return value_type
    return f"{value_type}, {facts.quantization(config.model, '').bits}-bit"


def _has_chat_template(folder: Path, config: Config) -> bool:
    files = ("chat_template.jinja", "chat_template.json")
    return bool(config.tokenizer.get("chat_template")) or any(
        (folder / name).is_file() for name in files
    )
