"""One pass that computes a piece of a prompt and a token for each row that decodes.

A pass reads all weights, and on a CPU that is most of what a decode of few rows costs. Here every
token is a row of one token for the model: those of the piece stand at places one behind the other,
and only the cache and the attention know that they are of one sequence. Kept with that, the model's
own code computes both (the idea: chunked prefills with decodes on their back, Sarathi, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask

from headrace.actors.engine import kv
from headrace.actors.engine.backbone import logits_of_first
from headrace.actors.engine.bands import Mixed, Parts
from headrace.actors.engine.kv import Cache


class MixedKVCache:
    """One layer's caches for one pass: `rows` of one token each, and the `tokens` of a piece."""

    def __init__(self, rows: Any, piece: Any, offset: mx.array, count: int) -> None:
        self._rows = rows
        self._piece = piece
        self._count = count
        # Where each token stands, (rows + tokens,).
        self.offset = offset

    def make_mask(self, count: int, window_size: int | None = None, **options: Any) -> Parts:
        rows = self._rows.make_mask(count, window_size=window_size, **options)
        piece: Any = "causal"
        if window_size is not None:
            tokens = len(self.offset) - self._count
            piece = create_causal_mask(tokens, self._piece.offset, window_size=window_size)
        return Mixed([*_parts(rows), piece])

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Parts, Parts]:
        """Shapes as for rows of one token: (rows + tokens, heads, 1, dim)."""
        count = self._count
        rows = self._rows.update_and_fetch(keys[:count], values[:count])
        piece = self._piece.update_and_fetch(_sequence(keys[count:]), _sequence(values[count:]))
        all_keys, all_values = zip(rows, piece, strict=True)
        return Mixed([*_parts(all_keys[0]), all_keys[1]]), Mixed(
            [*_parts(all_values[0]), all_values[1]]
        )


def logits_beside(
    model: Any, rows: Cache, last: Sequence[int], piece: Cache, tokens: Sequence[int]
) -> mx.array:
    """Float32 logits (rows, V) after one more token, `last`, of each row; the `tokens` of another
    sequence are computed into its own cache. Both are evaluated."""
    count = len(last)
    before: Any = rows[0].offset
    # A row by itself has a number in the place of an array.
    places = mx.array([before] if isinstance(before, int) else before)
    offset = mx.concatenate([places, piece[0].offset + mx.arange(len(tokens))])
    cache = [MixedKVCache(*layers, offset, count) for layers in zip(rows, piece, strict=True)]
    logits = logits_of_first(model, mx.array([*last, *tokens])[:, None], cache, count)
    mx.eval(logits, kv.arrays(piece))
    return logits


def _parts(part: Any) -> Sequence[Any]:
    return part if isinstance(part, Parts) else [part]


def _sequence(states: mx.array) -> mx.array:
    """(tokens, heads, 1, dim) as one row, (1, heads, tokens, dim)."""
    return states.transpose(2, 1, 0, 3)
