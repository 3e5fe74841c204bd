"""What a row of a model takes, read off mlx-lm's own caches after one token.

It says more than config arithmetic: families differ in windows, latents and states, and each
release of mlx-lm brings new ones. Nothing has to be evaluated for it, since shapes of lazy arrays
are known; so it also works on a model whose weights have not been read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, KVCache

from headrace.actors.engine import kv
from headrace.actors.engine.kv import Cache
from headrace.runtime.footprint import Footprint, KvGroup


def of_model(model: Any, expected: Footprint) -> Footprint:
    """Runs one token through the model, lazily, into caches of its own. What caches do not show
    is taken from what is expected of the model."""
    cache = kv.fresh(model)
    model(mx.array([[0]]), cache=cache)
    return of_caches(cache, expected)


def of_caches(cache: Cache, expected: Footprint) -> Footprint:
    """The same of caches that hold a token already."""
    growth: Counter[int | None] = Counter()
    state_bytes = 0
    for layer in _layers(cache):
        keys_values = _arrays([getattr(layer, "keys", None), getattr(layer, "values", None)])
        if keys_values:
            per_token = sum(array.nbytes // array.shape[-2] for array in keys_values)
            growth[_window(layer)] += per_token
        else:
            state_bytes += sum(array.nbytes for array in kv.arrays([layer]))
    return attrs.evolve(
        expected,
        groups=tuple(KvGroup(count, window) for window, count in growth.items() if count),
        state_bytes=state_bytes,
        step_tokens=KVCache.step,
    )


def _layers(cache: Cache) -> Iterator[Any]:
    for layer in cache:
        if isinstance(layer, CacheList):
            yield from _layers(list(layer.caches))
        else:
            yield layer


def _window(layer: Any) -> int | None:
    """Tokens that a layer keeps; mlx-lm has two names for it."""
    size = getattr(layer, "max_size", None) or getattr(layer, "chunk_size", None)
    return int(size) if size else None


def _arrays(tree: Any) -> list[mx.array]:
    leaves: Mapping[str, Any] = dict(tree_flatten(tree))
    return [leaf for leaf in leaves.values() if isinstance(leaf, mx.array)]
