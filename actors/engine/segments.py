"""Copies of a row's KV that outlive the row: what one edge and one mark of a prefix tree hold.

Caches of keys and values can be cut anywhere: a segment holds the tokens of one edge. Others (a
window that turns, a recurrent state) are good only as they stood after a certain token: a state
holds them whole. A copy has buffers of its own, since a slice keeps all of what it was cut from.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import CacheList, KVCache

from headrace.actors.engine import kv
from headrace.actors.engine.bands import BandedKVCache
from headrace.actors.engine.kv import Cache
from headrace.actors.engine.slots import SlotKVCache

# (1, heads, tokens, size) each.
KeysValues: TypeAlias = tuple[mx.array, mx.array]


@attrs.frozen(eq=False)
class Segment:
    """The KV of some tokens in a row, for each layer that can be cut."""

    layers: tuple[KeysValues, ...]

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers)

    def split(self, at: int) -> tuple[Segment, Segment]:
        head = [(keys[..., :at, :], values[..., :at, :]) for keys, values in self.layers]
        tail = [(keys[..., at:, :], values[..., at:, :]) for keys, values in self.layers]
        return _segment(head), _segment(tail)

    def between(self, first: int, last: int) -> Segment:
        """A copy of these tokens; all of them are what it has already."""
        if first == 0 and last == self.tokens:
            mx.eval(self.layers)
            return self
        return _segment(
            [(keys[..., first:last, :], values[..., first:last, :]) for keys, values in self.layers]
        )

    @property
    def tokens(self) -> int:
        return int(self.layers[0][0].shape[2]) if self.layers else 0

    def first(self, tokens: int) -> Segment:
        """A view of the first tokens, to be read and let go."""
        return Segment(
            tuple((keys[..., :tokens, :], values[..., :tokens, :]) for keys, values in self.layers)
        )


@attrs.frozen(eq=False)
class State:
    """The layers that cannot be cut, as they stand after a certain token."""

    layers: tuple[Any, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in kv.arrays(list(self.layers)))


def leaves(cache: Sequence[Any]) -> Iterator[Any]:
    """The caches of keys and values, windows and states that a row's cache is made of, in order."""
    for layer in cache:
        if isinstance(layer, CacheList):
            yield from leaves(layer.caches)
        else:
            yield layer


def can_be_cut(leaf: Any) -> bool:
    return type(leaf) is KVCache or isinstance(leaf, SlotKVCache | BandedKVCache)


def segment_of(cache: Cache, index: int, first: int, last: int) -> Segment:
    """A copy of tokens first..last-1 of one row of a cache of its own (index 0) or of a batch."""
    return _segment([_cut(leaf, index, first, last) for leaf in leaves(cache) if can_be_cut(leaf)])


def state_of(cache: Cache) -> State:
    """A copy of the layers of one row's own cache that cannot be cut."""
    layers = tuple(_copied(leaf) for leaf in leaves(cache) if not can_be_cut(leaf))
    mx.eval(kv.arrays(list(layers)))
    return State(layers)


def restored(empty: Cache, segments: Sequence[Segment], state: State | None) -> Cache:
    """`empty`, a fresh cache for one row, filled with what these hold."""
    cut = [leaf for leaf in leaves(empty) if can_be_cut(leaf)]
    for index, leaf in enumerate(cut):
        _fill(leaf, [segment.layers[index] for segment in segments])
    mx.eval([[leaf.keys, leaf.values] for leaf in cut])
    states = iter(() if state is None else state.layers)
    return [_with_states(layer, states) for layer in empty]


def _with_states(layer: Any, states: Iterator[Any]) -> Any:
    if isinstance(layer, CacheList):
        return CacheList(*(_with_states(part, states) for part in layer.caches))
    # Arrays are shared until the row writes to them, which gives it its own.
    return layer if can_be_cut(layer) else copy.deepcopy(next(states))


def _cut(leaf: Any, index: int, first: int, last: int) -> KeysValues:
    if isinstance(leaf, BandedKVCache):
        leaf, index = leaf.place(index)
    row = slice(index, index + 1)
    if isinstance(leaf, SlotKVCache):
        left = leaf.padding_of(index)
        first, last = first + left, last + left
    return leaf.keys[row, :, first:last, :], leaf.values[row, :, first:last, :]


def _segment(layers: Sequence[KeysValues]) -> Segment:
    owned = tuple((_owned(keys), _owned(values)) for keys, values in layers)
    mx.eval(owned)
    return Segment(owned)


def _owned(array: mx.array) -> mx.array:
    """The same in a buffer of its own, also where the slice would do as it is."""
    return mx.concatenate([array, array[..., :0, :]], axis=-2)


def _copied(layer: Any) -> Any:
    """A copy whose arrays are no larger than what they hold, and nobody else's."""
    copied = copy.deepcopy(layer)
    copied.state = tree_map(_whole, layer.state)
    return copied


def _whole(value: Any) -> Any:
    if not isinstance(value, mx.array) or value.size == 0:
        return value
    flat = value.reshape(-1)
    return mx.concatenate([flat, flat[:0]]).reshape(value.shape)


def _fill(leaf: KVCache, parts: Sequence[KeysValues]) -> None:
    """Fill an empty cache with these tokens, with room for more as it makes itself."""
    length = sum(keys.shape[2] for keys, _ in parts)
    room = -length % leaf.step
    leaf.keys = _joined([keys for keys, _ in parts], room)
    leaf.values = _joined([values for _, values in parts], room)
    leaf.offset = length


def _joined(parts: Sequence[mx.array], room: int) -> mx.array:
    one, heads, _, size = parts[0].shape
    empty = mx.zeros((one, heads, room, size), dtype=parts[0].dtype)
    return mx.concatenate([*parts, empty], axis=2)
