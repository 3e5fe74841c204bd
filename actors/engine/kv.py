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

from headrace.actors.engine.bands import BandedKVCache, gaps_filled
from headrace.actors.engine.slots import SlotKVCache
from headrace.runtime.banding import SPAN_TOKENS

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


def can_be_banded(cache: Cache) -> bool:
    return all(type(layer) is KVCache for layer in cache)


def banded(
    caches: Sequence[Cache], span_tokens: int = SPAN_TOKENS
) -> tuple[Cache, list[int] | None]:
    """The same with rows of different lengths apart, in an order that is told; it takes over what
    each row had."""
    cache: Cache = [BandedKVCache(span_tokens) for _ in caches[0]]
    return cache, admit(cache, caches)


def _joined(layers: Sequence[Any]) -> Any:
    if isinstance(layers[0], CacheList):
        parts = zip(*(layer.caches for layer in layers), strict=True)
        return CacheList(*map(_joined, parts))
    if type(layers[0]) is KVCache:
        return SlotKVCache(layers)
    return layers[0].merge(list(layers))


def admit(cache: Cache, caches: Sequence[Cache]) -> list[int] | None:
    """Add rows that have a cache each to one made by `joined` or `banded`. Returns the numbers of
    all rows in their new order; None where the new ones are behind the others."""
    orders = [_admit(layer, added) for layer, *added in zip(cache, *caches, strict=True)]
    return orders[0]


def _admit(layer: Any, added: Sequence[Any]) -> list[int] | None:
    if isinstance(layer, BandedKVCache):
        return layer.admit(added)
    if isinstance(layer, CacheList):
        for part, *parts in zip(layer.caches, *(one.caches for one in added), strict=True):
            _admit(part, parts)
    elif isinstance(layer, SlotKVCache):
        layer.admit(added)
    else:
        layer.extend(added[0].merge(list(added)))
    return None


def arranged(cache: Cache, kept: Sequence[int]) -> list[int]:
    """These rows (ascending) in an order in which they can be selected at little cost."""
    first = cache[0] if cache else None
    return first.arranged(kept) if isinstance(first, BandedKVCache) else gaps_filled(kept)


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
        elif isinstance(layer, SlotKVCache | BandedKVCache):
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


def row_nbytes(cache: Cache, row: int, rows: int) -> int:
    """Bytes of one of so many rows of a batch cache."""
    return sum(
        layer.row_nbytes(row) if isinstance(layer, BandedKVCache) else _nbytes(layer) // rows
        for layer in cache
    )


def _nbytes(layer: Any) -> int:
    try:
        return int(layer.nbytes)
    except NotImplementedError:
        return sum(array.nbytes for array in arrays([layer]))
