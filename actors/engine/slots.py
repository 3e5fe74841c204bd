"""A batch KV cache in which rows come and go without the others being copied.

mlx-lm's batch cache gathers or concatenates all of its rows whenever one leaves or joins. At
sixteen rows on a CPU that costs as much as a decode step. Here the buffers may have room for a
few more rows than are running: a leaving row's slot is filled with the last row, a joining row
is written behind the last, and both are slice updates that MLX makes in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache

# Left padding that all rows share and that is worth copying everything to be rid of.
_SHARED_PADDING = 64


class SlotKVCache(BatchKVCache):
    """Rows 0..B-1 of buffers (slots, heads, room, dim), right-justified at `_idx`.

    `offset` and `left_padding` have B entries as in the base class, whose masks and extraction
    serve here too. Prompts are computed elsewhere: it takes the same number of tokens for every
    row.
    """

    # mx.array, or None before there is anything to hold.
    keys: Any
    values: Any

    def __init__(self, caches: Sequence[Any]) -> None:
        """Hold copies of single rows' caches (mlx-lm's KVCache), at least one; one by itself is
        not copied, and of no further use."""
        lengths = [cache.offset for cache in caches]
        padding = [max(lengths) - length for length in lengths]
        super().__init__(padding)
        self._idx = max(lengths)
        self._set_padding(padding)
        if len(caches) == 1:
            self.keys, self.values = caches[0].keys, caches[0].values
        else:
            self._write(0, caches)

    @property
    def rows(self) -> int:
        return len(self._padding)

    @property
    def slots(self) -> int:
        """Rows there is room for."""
        return 0 if self.keys is None else int(self.keys.shape[0])

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the shortest and of the longest row."""
        return self._idx - max(self._padding), self._idx - min(self._padding)

    def padding_of(self, row: int) -> int:
        """Where the row's first token lies."""
        return self._padding[row]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        rows, end = self.rows, self._idx + keys.shape[2]
        self._reserve(rows, end, keys, values)
        self.keys[:rows, :, self._idx : end, :] = keys
        self.values[:rows, :, self._idx : end, :] = values
        self.offset = self.offset + keys.shape[2]
        self._idx = end
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        rows = self.rows
        return self.keys[:rows, :, : self._idx, :], self.values[:rows, :, : self._idx, :]

    def admit(self, caches: Sequence[Any]) -> None:
        """Append copies of single rows' caches."""
        longest = max(cache.offset for cache in caches)
        first = self.rows
        if longest > self._idx:
            slots = self._slots_for(first + len(caches))
            self._repack(list(range(first)), longest - self._idx, slots)
        self._set_padding(self._padding + [self._idx - cache.offset for cache in caches])
        self._write(first, caches)

    def filter(self, batch_indices: Sequence[int]) -> None:
        """Keep these rows in this order; cheap where the new ones come from behind."""
        kept, count = list(batch_indices), len(batch_indices)
        moves = [(to, row) for to, row in enumerate(kept) if to != row]
        padding = [self._padding[row] for row in kept]
        wasteful = self.slots - count > max(2, count // 2) or min(padding) >= _SHARED_PADDING
        if self.keys is None:
            self._set_padding(padding)
        elif wasteful or any(row < count for _, row in moves):
            self._repack(kept, -min(padding))
        else:
            self._set_padding(padding)
            for to, row in moves:
                self.keys[to : to + 1] = self.keys[[row]]
                self.values[to : to + 1] = self.values[[row]]

    def give_back(self) -> None:
        """Shrink the buffers to the rows that are there."""
        if self.slots > self.rows:
            self._repack(list(range(self.rows)), -min(self._padding))

    @property
    def nbytes(self) -> int:
        """Bytes of the slots that rows are in."""
        if self.keys is None:
            return 0
        return int(self.keys.nbytes + self.values.nbytes) * self.rows // self.slots

    def prepare(self, **kwargs: Any) -> None:
        raise NotImplementedError("prompts are not computed in a slot cache")

    def _set_padding(self, padding: list[int]) -> None:
        # Kept on the host as well: reading it back from the device would cost a wait per layer.
        self._padding = padding
        self.left_padding = mx.array(padding)
        self.offset = mx.array([self._idx - left for left in padding])

    def _write(self, first: int, caches: Sequence[Any]) -> None:
        """Fill the slots from `first` on, whose padding is set, with these caches."""
        filled: list[Any] = [cache for cache in (self, *caches) if cache.keys is not None]
        if not filled:
            return
        self._reserve(self.rows, self._idx, filled[0].keys, filled[0].values)
        for row, cache in enumerate(caches, first):
            self._write_row(row, cache)

    def _write_row(self, row: int, cache: Any) -> None:
        left, end = self._padding[row], self._idx
        # What an earlier row left in the padding must not be there: 0 x NaN is NaN.
        self.keys[row : row + 1, :, :left, :] = 0
        self.values[row : row + 1, :, :left, :] = 0
        if cache.keys is not None:
            self.keys[row : row + 1, :, left:end, :] = cache.keys[..., : cache.offset, :]
            self.values[row : row + 1, :, left:end, :] = cache.values[..., : cache.offset, :]

    def _repack(self, kept: list[int], shift: int, slots: int | None = None) -> None:
        """Copy these rows into buffers of their own, of so many slots if not of one for each,
        moved right (or left) by `shift` tokens."""
        padding = [self._padding[row] + shift for row in kept]
        start, end = max(0, -shift), self._idx
        keys, values = self.keys, self.values
        self.keys = self.values = None
        self._idx = end + shift
        self._set_padding(padding)
        if keys is not None:
            self._allocate(len(kept) if slots is None else slots, self._idx, keys, values)
            at = slice(max(0, shift), self._idx)
            self.keys[: len(kept), :, at] = keys[kept, :, start:end]
            self.values[: len(kept), :, at] = values[kept, :, start:end]

    def _reserve(self, rows: int, length: int, keys: Any, values: Any) -> None:
        """Make the buffers hold this many rows and tokens; `keys` and `values` show the shapes."""
        room = 0 if self.keys is None else self.keys.shape[2]
        if rows > self.slots or length > room:
            self._allocate(self._slots_for(rows), max(length, room), keys, values)

    def _slots_for(self, rows: int) -> int:
        """Where rows keep joining, not each of them should move all others."""
        return self.slots if rows <= self.slots else rows + rows // 8

    def _allocate(self, slots: int, length: int, keys: Any, values: Any) -> None:
        room = -(-length // self.step) * self.step
        self.keys = _enlarged(self.keys, keys, slots, room)
        self.values = _enlarged(self.values, values, slots, room)


def _enlarged(buffer: Any, like: mx.array, slots: int, room: int) -> mx.array:
    """A zeroed (slots, heads, room, dim) buffer with the old one in its corner."""
    grown = mx.zeros((slots, like.shape[1], room, like.shape[3]), dtype=like.dtype)
    if buffer is not None:
        grown[: buffer.shape[0], :, : buffer.shape[2], :] = buffer
    return grown
