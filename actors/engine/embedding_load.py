"""Loading what only embeds: encoders, and decoders whose files leave out what writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from headrace.actors.engine.config import Config
from headrace.actors.engine.encoder import Encoder, Shape
from headrace.actors.engine.headers import WEIGHTS, Numerics
from headrace.actors.engine.tokens import TextTokenizer
from headrace.runtime.contracts import Prompt

# What mlx-lm's models call their part without a head.
BACKBONE = "model."


class EmbeddingTokenizer(TextTokenizer):
    """Texts with whatever special tokens the tokenizer puts around one by itself."""

    def build(self, prompt: Prompt) -> tuple[int, ...]:
        if prompt.text is None:
            return super().build(prompt)
        tokens = self._tokenizer.encode(
            prompt.text, add_special_tokens=True, truncation=False, verbose=False
        )
        return self._checked(tokens)


def lazy_encoder(folder: Path, config: Config, numerics: Numerics) -> Encoder:
    """Its weights are read when they are evaluated. Raises KeyError and ValueError for a model
    that is not as its type has it."""
    if config.model.get("quantization") or config.model.get("quantization_config"):
        raise ValueError("its weights are packed")
    weights: dict[str, mx.array] = {}
    for file in sorted(folder.glob(WEIGHTS)):
        weights |= _loaded(file)
    if numerics == "float32":
        weights = {
            name: weight.astype(mx.float32) if mx.issubdtype(weight.dtype, mx.floating) else weight
            for name, weight in weights.items()
        }
    return Encoder(weights, Shape.of(config.model))


def without_head(classes: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """The classes of a model whose weights may be those of its backbone alone, under the names
    that they have there. Its head is the embedding then; nobody asks it anything."""

    def found(config: dict[str, Any]) -> Any:
        model, args = classes(config)

        class Backbone(model):  # type: ignore[misc, valid-type]
            def __init__(self, args: Any) -> None:
                if hasattr(args, "tie_word_embeddings"):
                    args.tie_word_embeddings = True
                super().__init__(args)

            def sanitize(self, weights: dict[str, Any]) -> Any:
                if not any(name.startswith(BACKBONE) for name in weights):
                    weights = {BACKBONE + name: weight for name, weight in weights.items()}
                kept = {n: w for n, w in weights.items() if not n.startswith("lm_head.")}
                return super().sanitize(kept) if hasattr(model, "sanitize") else kept

        return Backbone, args

    return found


def _loaded(file: Path) -> dict[str, mx.array]:
    loaded = mx.load(str(file))
    assert isinstance(loaded, dict)
    return loaded
