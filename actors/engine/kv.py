"""The KV cache of one or more rows: a list with one of mlx-lm's cache objects per layer.

A row starts with the model's own caches. Caches that can be merged turn into their batch form,
which holds several rows, left-padded to one length, and knows extend, filter and extract.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, KVCache, make_prompt_cache

from headrace.actors.engine.slots import SlotKVCache

Cache: TypeAlias = list[Any]


def fresh(model: Any) -> Cache:
    """An empty cache for one row."""
    made: Cache = make_prompt_cache(model)
    return made


def forked(cache: Cache) -> Cache:
    """The same state for another row. Arrays are shared until one of the two is written."""
    return copy.deepcopy(cache)


def mergeable(cache: Cache) -> bool:
    """Whether rows with such caches can share one batch cache."""
    return all(map(_mergeable, cache))


def _mergeable(layer: Any) -> bool:
    if isinstance(layer, CacheList):
        return all(map(_mergeable, layer.caches))
    # The batch form of a rotating cache has no place for tokens that are never rotated out.
    return hasattr(layer, "merge") and not getattr(layer, "keep", 0)


def merged(caches: Sequence[Cache]) -> Cache:
    """One batch cache for rows that have one each, to compute prompts in; theirs stay."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


def joined(caches: Sequence[Cache]) -> Cache:
    """The same to decode in: rows may be admitted to it and selected from it at little cost."""
    return [_joined(layers) for layers in zip(*caches, strict=True)]


def _joined(layers: Sequence[Any]) -> Any:
    if isinstance(layers[0], CacheList):
        parts = zip(*(layer.caches for layer in layers), strict=True)
        return CacheList(*map(_joined, parts))
    if type(layers[0]) is KVCache:
        return SlotKVCache(layers)
    return layers[0].merge(list(layers))


def admit(cache: Cache, caches: Sequence[Cache]) -> None:
    """Append rows that have a cache each to one made by `joined`."""
    for layer, *added in zip(cache, *caches, strict=True):
        _admit(layer, added)


def _admit(layer: Any, added: Sequence[Any]) -> None:
    if isinstance(layer, CacheList):
        for part, *parts in zip(layer.caches, *(one.caches for one in added), strict=True):
            _admit(part, parts)
    elif isinstance(layer, SlotKVCache):
        layer.admit(added)
    else:
        layer.extend(added[0].merge(list(added)))


def select(cache: Cache, indices: list[int]) -> None:
    """Keep only these rows of a batch cache, in this order."""
    for layer in cache:
        layer.filter(indices)


def extracted(cache: Cache, index: int) -> Cache:
    """One row of a batch cache as a cache of its own."""
    return [layer.extract(index) for layer in cache]


def give_back(cache: Sequence[Any]) -> None:
    """Free the room for further rows that a cache made by `joined` may have."""
    for layer in cache:
        if isinstance(layer, CacheList):
            give_back(layer.caches)
        elif isinstance(layer, SlotKVCache):
            layer.give_back()


def prepare(cache: Cache, lengths: list[int]) -> None:
    """Announce a right-padded input with this many true tokens in each row."""
    padding = [max(lengths) - length for length in lengths]
    for layer in cache:
        layer.prepare(lengths=lengths, right_padding=padding)


def finalize(cache: Cache) -> None:
    """Turn the right padding of the input announced before into left padding."""
    for layer in cache:
        layer.finalize()


def arrays(cache: Cache) -> list[mx.array]:
    """Everything the cache holds on the device, to be evaluated."""
    leaves: Any = tree_flatten([layer.state for layer in cache])
    return [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]


def nbytes(cache: Cache) -> int:
    """Bytes allocated for the rows in it, which is more than their tokens need."""
    return sum(map(_nbytes, cache))


def _nbytes(layer: Any) -> int:
    try:
        return int(layer.nbytes)
    except NotImplementedError:
        return sum(array.nbytes for array in arrays([layer]))
