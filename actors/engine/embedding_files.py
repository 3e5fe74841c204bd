"""How a model folder says that it makes embeddings, and how. No MLX.

The layout is that of sentence-transformers: `modules.json` lists what a text goes through, each
module with a folder of its own. https://sbert.net/docs/sentence_transformer/usage/custom_models.html
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import attrs

from headrace.actors.engine.config import Config, count
from headrace.runtime.errors import Code, RequestError
from headrace.runtime.readings import EmbeddingTraits, PoolingKind

# Encoders that we compute; no model of these types generates text.
ENCODERS = frozenset({"bert", "roberta", "xlm-roberta"})
MODULES = "modules.json"
KINDS: dict[str, PoolingKind] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
    "pooling_mode_lasttoken": "last",
}
# The end of a prompt for queries that can take another instruction in the place of its own.
INSTRUCTED = re.compile(r"(Instruct: ).*(\nQuery: ?)", re.DOTALL)


@attrs.frozen
class Embedder:
    """`limit_tokens` is what its makers limit texts to, None where that is the model's window."""

    traits: EmbeddingTraits
    limit_tokens: int | None = None


def is_encoder(config: Config) -> bool:
    return config.model_type in ENCODERS


def read_embedder(folder: Path, config: Config) -> Embedder | None:
    """What the folder says of embeddings; None for a model that generates text.

    Raises `RequestError` (load-failed) for one that puts a text through modules which are not
    known here.
    """
    modules = _read(folder / MODULES)
    if not isinstance(modules, list):
        if not is_encoder(config):
            return None
        return Embedder(EmbeddingTraits(_width(config), "mean"), _positions(config))
    kinds = [_kind(module) for module in modules]
    if kinds[:1] != ["Transformer"] or set(kinds[1:]) - {"Pooling", "Normalize"}:
        raise _unknown(", ".join(kinds))
    own = _read(folder / "config_sentence_transformers.json") or {}
    limits = _read(folder / "sentence_bert_config.json") or {}
    traits = EmbeddingTraits(
        width=_width(config),
        pooling=_pooling(folder, modules),
        normalized="Normalize" in kinds,
        cuts=bool(config.model.get("matryoshka_dimensions") or own.get("truncate_dim")),
        instruction=_instruction(own),
    )
    stated = [limit for limit in (count(limits.get("max_seq_length")), _positions(config)) if limit]
    return Embedder(traits, min(stated, default=None))


def _positions(config: Config) -> int:
    """Tokens for which an encoder has positions; 0 where that is not told.

    RoBERTa's table begins with rows that stand for none: as many as its padding token's id, and
    one for the token itself.
    """
    if not is_encoder(config):
        return 0
    without = 0 if config.model_type == "bert" else count(config.model.get("pad_token_id")) + 1
    return count(config.model.get("max_position_embeddings")) - without


def _pooling(folder: Path, modules: list[Any]) -> PoolingKind:
    for module in modules:
        if _kind(module) == "Pooling":
            settings = _read(folder / str(module.get("path", "")) / "config.json") or {}
            # More than one may be on; then the vectors are joined, which is not known here.
            on = [name for name, value in settings.items() if "pooling_mode" in name and value]
            if len(on) != 1 or on[0] not in KINDS:
                raise _unknown(" and ".join(on) or "a pooling without a mode")
            return KINDS[on[0]]
    return "mean"


def _instruction(own: Any) -> tuple[str, str] | None:
    prompts = own.get("prompts")
    prompt = prompts.get("query") if isinstance(prompts, dict) else None
    match = INSTRUCTED.fullmatch(prompt) if isinstance(prompt, str) else None
    return None if match is None else (match[1], match[2])


def _width(config: Config) -> int:
    return count(config.text.get("hidden_size"))


def _kind(module: Any) -> str:
    """The last part of the class that a module is of."""
    kind = module.get("type") if isinstance(module, dict) else None
    return str(kind).rpartition(".")[2]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _unknown(what: str) -> RequestError:
    reason = f"The model cannot be loaded: it makes embeddings in a way not known here ({what})."
    return RequestError(Code.LOAD_FAILED, reason)
