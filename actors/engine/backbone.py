"""A model's layers without its head, and logits where they are looked at.

A head is as wide as the vocabulary and computes every token that the layers give it. Where only few
are looked at, that would cost as much as the layers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from headrace.actors.engine.kv import Cache


def backbone(model: Any) -> Any:
    """The part that gives hidden states, after the last norm. Raises ValueError where a model
    keeps it in a place of its own."""
    if hasattr(model, "language_model"):
        return backbone(model.language_model)
    found = getattr(model, "model", None)
    if not callable(found):
        raise ValueError("this kind of model shows no hidden states")
    return found


def logits_at(model: Any, tokens: mx.array, cache: Cache, places: Sequence[int]) -> mx.array:
    """Lazy float32 logits (B, V) at one place of each row of a pass; `tokens` is (B, L).

    For this pass the layers hand their head no more than those places. A model that does not show
    its layers computes them all.
    """
    at = mx.array(list(places))[:, None, None]
    try:
        layers = backbone(model)
    except ValueError:
        return _at(model(tokens, cache=cache), at)
    shape = tokens.shape

    def at_places(hidden: Any) -> Any:
        if isinstance(hidden, mx.array) and hidden.ndim == 3 and hidden.shape[:2] == shape:
            return mx.take_along_axis(hidden, at, axis=1)
        return hidden

    with _handing_over(layers, at_places):
        return _at(model(tokens, cache=cache), at)


def logits_of_first(model: Any, tokens: mx.array, cache: Cache, rows: int) -> mx.array:
    """Lazy float32 logits (rows, V) of the first rows of a pass over one token each; `tokens` is
    (B, 1). Raises ValueError where a model does not show its layers."""
    with _handing_over(backbone(model), lambda hidden: hidden[:rows]):
        logits: mx.array = model(tokens, cache=cache)[:, -1, :]
    return logits.astype(mx.float32)


def _at(logits: mx.array, at: mx.array) -> mx.array:
    if logits.shape[1] > 1:
        logits = mx.take_along_axis(logits, at, axis=1)
    return logits[:, 0].astype(mx.float32)


@contextmanager
def _handing_over(layers: Any, chosen: Callable[[Any], Any]) -> Iterator[None]:
    """For a while, of the hidden states (B, L, H) of these layers only the chosen come out."""
    kind = type(layers)

    def call(layers: Any, *args: Any, **fields: Any) -> Any:
        return chosen(kind.__call__(layers, *args, **fields))

    layers.__class__ = type(
        kind.__name__, (kind,), {"__call__": call, "__module__": kind.__module__}
    )
    try:
        yield
    finally:
        layers.__class__ = kind
