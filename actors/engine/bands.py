"""A batch KV cache in which rows of very different lengths lie apart.

In one buffer every row takes as much as the longest: beside one row of 2,000 tokens, four short
ones cost twice as much in each step, and all of them are copied when it joins. Here rows of about
one length share buffers (a band), and attention looks at one band after the other; the rest of
the model still sees one batch. A row by itself brings its buffers along, so it joins at no cost.

Where there are several bands, the model is given `Parts` in the place of arrays, and hands them
from here to the attention, which has to know them (`attention.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from headrace.actors.engine.slots import SlotKVCache
from headrace.runtime.banding import SPAN_TOKENS, Band, assigned


class Parts(tuple[Any, ...]):
    """What a model takes for one array: keys, values or the mask of each band, in order."""

    __slots__ = ()


class Mixed(Parts):
    """The same where the last part is one sequence, of which each token is a row for the model."""

    __slots__ = ()


class BandedKVCache:
    """The rows of each band, one band after the other; so they are in an order of its own, which
    `admit` tells. Like a slot cache it takes one token for every row."""

    def __init__(self, span_tokens: int = SPAN_TOKENS) -> None:
        self._span_tokens = span_tokens
        self._bands: list[SlotKVCache] = []

    @property
    def rows(self) -> int:
        return sum(band.rows for band in self._bands)

    @property
    def bands(self) -> int:
        return len(self._bands)

    def place(self, row: int) -> tuple[SlotKVCache, int]:
        """The band that a row lies in, and its slot there."""
        for band in self._bands:
            if row < band.rows:
                return band, row
            row -= band.rows
        raise IndexError("there is no such row")

    def admit(self, caches: Sequence[Any]) -> list[int]:
        """Take in single rows' caches (mlx-lm's KVCache), numbered from `rows` on; these are of no
        further use by themselves. Returns the numbers of all rows in their new order."""
        count = len(self._bands)
        bands = [Band(band.rows, *band.lengths) for band in self._bands]
        numbers = assigned(bands, [cache.offset for cache in caches], self._span_tokens)
        joining = [
            [index for index, at in enumerate(numbers) if at == band]
            for band in range(max(count, *(number + 1 for number in numbers)))
        ]
        order, first, added = list[int](), 0, self.rows
        for band, new in enumerate(joining):
            if band < count:
                before = self._bands[band].rows
                order += range(first, first + before)
                first += before
            self._admit(band, [caches[index] for index in new])
            order += (added + index for index in new)
        return order

    def _admit(self, band: int, caches: Sequence[Any]) -> None:
        if band == len(self._bands):
            self._bands.append(SlotKVCache(caches))
        elif caches:
            self._bands[band].admit(caches)

    def arranged(self, kept: Sequence[int]) -> list[int]:
        """These rows in an order in which they can be kept at little cost."""
        found, first = list[int](), 0
        for band in self._bands:
            inside = [row - first for row in kept if first <= row < first + band.rows]
            found += (first + row for row in gaps_filled(sorted(inside)))
            first += band.rows
        return found

    def filter(self, indices: Sequence[int]) -> None:
        """Keep only these rows, in an order that `arranged` gave."""
        kept, first = list[SlotKVCache](), 0
        for band in self._bands:
            inside = [row - first for row in indices if first <= row < first + band.rows]
            first += band.rows
            if inside:
                if inside != list(range(band.rows)):
                    band.filter(inside)
                kept.append(band)
        self._bands = kept

    def extract(self, row: int) -> Any:
        band, slot = self.place(row)
        cache: Any = band
        return cache.extract(slot)

    def give_back(self) -> None:
        for band in self._bands:
            band.give_back()

    def row_nbytes(self, row: int) -> int:
        """Bytes of the slot that it is in."""
        band, _ = self.place(row)
        return band.nbytes // band.rows

    @property
    def nbytes(self) -> int:
        return sum(band.nbytes for band in self._bands)

    # What models and mlx-lm ask of a cache.

    @property
    def offset(self) -> mx.array:
        """Tokens of each row, (B,)."""
        offsets = [band.offset for band in self._bands]
        return offsets[0] if len(offsets) == 1 else mx.concatenate(offsets)

    @property
    def state(self) -> Any:
        return [band.state for band in self._bands]

    def make_mask(self, count: int, **options: Any) -> Any:
        return _one_or_parts([band.make_mask(count, **options) for band in self._bands])

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        found, first = list[tuple[mx.array, mx.array]](), 0
        for band in self._bands:
            rows = slice(first, first + band.rows)
            found.append(band.update_and_fetch(keys[rows], values[rows]))
            first += band.rows
        all_keys, all_values = zip(*found, strict=True)
        return _one_or_parts(all_keys), _one_or_parts(all_values)


def _one_or_parts(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else Parts(parts)


def gaps_filled(kept: Sequence[int]) -> list[int]:
    """The kept slots (ascending) in an order in which as many as can stay where they are.

    Slots below the new length stay; those above it move into the gaps.
    """
    count = len(kept)
    staying = {slot for slot in kept if slot < count}
    moving = iter([slot for slot in kept if slot >= count])
    return [slot if slot in staying else next(moving) for slot in range(count)]
