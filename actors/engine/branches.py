"""The KV of several rows that go on from one context, of which there is one copy.

All rows stand at the same length, so their masks and places are those of a single sequence. A row
that is shorter is padded on the right, where a token that comes before never looks.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache

from headrace.actors.engine.kv import Cache


class BranchKVCache(KVCache):
    """One layer: `keys` and `values` (rows, heads, length, dim) are what the rows have of their
    own. What attention gets is put together anew for each pass, and is gone with it."""

    # mx.array, or None before there is anything to hold.
    keys: Any
    values: Any

    def __init__(self, context: KVCache) -> None:
        self.keys = self.values = None
        self._context = None if context.keys is None else context.keys_and_values()
        self.offset = context.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self.keys = _behind(self.keys, keys)
        self.values = _behind(self.values, values)
        self.offset += keys.shape[2]
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        if self._context is None:
            return self.keys, self.values
        keys, values = self._context
        return _behind(keys, self.keys), _behind(values, self.values)

    @property
    def state(self) -> tuple[Any, Any, int]:
        """Whole, for layers that look into another's cache."""
        return *self.keys_and_values(), self.offset

    @state.setter
    def state(self, value: Any) -> None:
        raise NotImplementedError("rows behind a context are not restored")


def can_branch(cache: Cache) -> bool:
    """Whether all layers keep their whole context, which windows and states do not."""
    return all(type(layer) is KVCache for layer in cache)


def branched(context: Cache) -> list[BranchKVCache]:
    """For as many rows as the first pass has. The context must not be written meanwhile."""
    return [BranchKVCache(layer) for layer in context]


def _behind(before: mx.array | None, more: mx.array) -> mx.array:
    """One behind the other; a single row stands for all."""
    if before is None:
        return more
    shared = mx.broadcast_to(before, (more.shape[0], *before.shape[1:]))
    return mx.concatenate([shared, more], axis=2)
