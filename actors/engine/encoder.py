"""An encoder of the BERT family: every token looks at every other, nothing is generated.

Devlin et al. 2018, https://arxiv.org/abs/1810.04805; weights under the names that transformers
gives them. RoBERTa (https://arxiv.org/abs/1907.11692) differs in where positions begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import mlx.core as mx
from mlx.nn.layers.activations import gelu

# What is added to the scores of padding: no token looks there.
NOWHERE = -1e9
# Prefixes that the weights of a whole model have where an encoder is only a part of it.
PREFIXES = ("bert.", "roberta.")


@attrs.frozen
class Shape:
    """Of config.json. `first_position` is the row of the position table for the first token."""

    layers: int
    heads: int
    norm_eps: float
    first_position: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """Raises KeyError and ValueError for what is missing or not known."""
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError("its positions are not absolute")
        if config.get("hidden_act", "gelu") != "gelu":
            raise ValueError("its activation is not gelu")
        # In RoBERTa the row of the padding token, and those before it, stand for no position.
        shifted = config["model_type"] != "bert"
        return cls(
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            norm_eps=float(config.get("layer_norm_eps", 1e-12)),
            first_position=int(config.get("pad_token_id") or 0) + 1 if shifted else 0,
        )


class Encoder:
    """`weights` are those of the file, by name; what only serves training is left alone."""

    def __init__(self, weights: Mapping[str, mx.array], shape: Shape) -> None:
        self._weights = {_plain(name): weight for name, weight in weights.items()}
        self._shape = shape
        self._names = [f"encoder.layer.{number}" for number in range(shape.layers)]

    def arrays(self) -> list[mx.array]:
        """The weights that are used."""
        used = ("embeddings.", "encoder.layer.")
        return [w for name, w in self._weights.items() if name.startswith(used)]

    def __call__(self, texts: Sequence[Sequence[int]]) -> mx.array:
        """Lazy hidden states (B, T, H); those behind a text's last token mean nothing."""
        longest = max(map(len, texts))
        tokens = mx.array([[*text, *[0] * (longest - len(text))] for text in texts])
        lengths = mx.array([len(text) for text in texts])
        padding = mx.arange(longest)[None] >= lengths[:, None]
        hidden = self._embedded(tokens)
        mask = mx.where(padding, NOWHERE, 0.0).astype(hidden.dtype)[:, None, None]
        for name in self._names:
            hidden = self._layer(name, hidden, mask)
        return hidden

    def _embedded(self, tokens: mx.array) -> mx.array:
        table = self._weights
        begin = self._shape.first_position
        positions = mx.arange(begin, begin + tokens.shape[1])
        summed = (
            table["embeddings.word_embeddings.weight"][tokens]
            + table["embeddings.position_embeddings.weight"][positions]
            + table["embeddings.token_type_embeddings.weight"][0]
        )
        return self._norm("embeddings.LayerNorm", summed)

    def _layer(self, name: str, hidden: mx.array, mask: mx.array) -> mx.array:
        looked = self._linear(f"{name}.attention.output.dense", self._attend(name, hidden, mask))
        hidden = self._norm(f"{name}.attention.output.LayerNorm", hidden + looked)
        wide = gelu(self._linear(f"{name}.intermediate.dense", hidden))
        return self._norm(
            f"{name}.output.LayerNorm", hidden + self._linear(f"{name}.output.dense", wide)
        )

    def _attend(self, name: str, hidden: mx.array, mask: mx.array) -> mx.array:
        batch, length, width = hidden.shape
        size = width // self._shape.heads

        def heads(part: str) -> mx.array:
            made = self._linear(f"{name}.attention.self.{part}", hidden)
            return made.reshape(batch, length, self._shape.heads, size).transpose(0, 2, 1, 3)

        looked = mx.fast.scaled_dot_product_attention(
            heads("query"), heads("key"), heads("value"), scale=size**-0.5, mask=mask
        )
        return looked.transpose(0, 2, 1, 3).reshape(batch, length, width)

    def _linear(self, name: str, x: mx.array) -> mx.array:
        return mx.addmm(self._weights[f"{name}.bias"], x, self._weights[f"{name}.weight"].T)

    def _norm(self, name: str, x: mx.array) -> mx.array:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return mx.fast.layer_norm(x, weight, bias, self._shape.norm_eps)


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name
