"""Attention on a CPU: query heads that share keys in one product, and the softmax by numpy.

MLX's CPU backend multiplies every query head by its keys for itself, and small products are not
worth the call. Heads of a group look at the same keys, so they can be the rows of one product:
with three heads to a group, a decode step of many rows makes a third of the calls.

It also computes exponentials one number at a time, some ten times slower than numpy does. For
more than a few tokens that is most of what attention costs, so many scores are evaluated in the
middle of the graph and turned into weights in place.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models import base

from headrace.actors.engine.bands import Mixed, Parts
from headrace.actors.engine.exponentials import MANY, exponentials_in_place


def cpu_attention(
    queries: mx.array,
    keys: Any,
    values: Any,
    cache: Any,
    scale: float,
    mask: Any,
    sinks: mx.array | None = None,
) -> mx.array:
    """mlx-lm's `scaled_dot_product_attention`.

    Shapes: queries (B, heads, L, dim), keys and values (B, groups, length, dim), or such `Parts`
    of all rows.
    """
    if isinstance(keys, Parts):
        return _by_bands(queries, keys, values, scale, mask, sinks)
    # A quantized cache hands its keys over in parts.
    if sinks is None and isinstance(keys, mx.array) and _is_known(mask):
        rows, heads, length, _ = queries.shape
        known = rows * heads * length * keys.shape[2]
        if known >= MANY and queries.dtype == keys.dtype == mx.float32:
            return _by_numpy(queries * scale, keys, values, mask)
        if length == 1 and heads > keys.shape[1] and not isinstance(mask, str):
            return _by_groups(queries * scale, keys, values, mask)
    return base.scaled_dot_product_attention(
        queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks
    )


def banded_attention(queries: mx.array, keys: Any, values: Any, **arguments: Any) -> mx.array:
    """mlx-lm's own, to which bands are known."""
    if isinstance(keys, Parts):
        return cpu_attention(queries, keys, values, **arguments)
    return base.scaled_dot_product_attention(queries, keys, values, **arguments)


def _by_bands(
    queries: mx.array, keys: Parts, values: Parts, scale: float, mask: Any, sinks: mx.array | None
) -> mx.array:
    """One band after the other."""
    masks = mask if isinstance(mask, Parts) else [mask] * len(keys)
    found, first = list[mx.array](), 0
    for index, (some, others, shown) in enumerate(zip(keys, values, masks, strict=True)):
        sequence = isinstance(keys, Mixed) and index == len(keys) - 1
        end = len(queries) if sequence else first + some.shape[0]
        asked = queries[first:end]
        # Tokens of one sequence are rows for the model, (L, heads, 1, dim).
        asked = asked.transpose(2, 1, 0, 3) if sequence else asked
        attended = cpu_attention(asked, some, others, None, scale, shown, sinks=sinks)
        found.append(attended.transpose(2, 1, 0, 3) if sequence else attended)
        first = end
    return mx.concatenate(found)


def _is_known(mask: Any) -> bool:
    return mask is None or isinstance(mask, mx.array) or mask == "causal"


def _by_groups(queries: mx.array, keys: mx.array, values: mx.array, mask: Any) -> mx.array:
    """Of one token for each row; the mask (B or 1, 1, 1, length) is the same for all heads."""
    scores = _grouped(queries, keys) @ keys.swapaxes(-1, -2)
    if mask is not None and mask.dtype == mx.bool_:
        scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)
    elif mask is not None:
        scores = scores + mask
    return _ungrouped(mx.softmax(scores, axis=-1, precise=True) @ values, queries)


def _by_numpy(queries: mx.array, keys: mx.array, values: mx.array, mask: Any) -> mx.array:
    weights = _grouped(queries, keys) @ keys.swapaxes(-1, -2)
    # Evaluates them, and shows the buffer itself: nothing else has it yet.
    scores: Any = np.array(weights, copy=False)
    _hide(scores.reshape(*queries.shape[:3], -1), mask)
    sums = exponentials_in_place(scores)
    # There are fewer of these than of the weights.
    return _ungrouped((weights @ values) / mx.array(sums), queries)


def _hide(scores: Any, mask: Any) -> None:
    """Apply a mask to scores (B, heads, L, length) in place."""
    if mask is None:
        return
    lowest = np.finfo(np.float32).min
    if isinstance(mask, str):
        length = scores.shape[-2]
        later = np.triu(np.ones((length, length), dtype=np.bool_), 1)
        np.copyto(scores[..., -length:], lowest, where=later)
    elif mask.dtype == mx.bool_:
        np.copyto(scores, lowest, where=~np.asarray(mask))
    else:
        scores += np.asarray(mask.astype(mx.float32))


def _grouped(queries: mx.array, keys: mx.array) -> mx.array:
    rows, heads, length, dim = queries.shape
    groups = keys.shape[1]
    return queries.reshape(rows, groups, heads // groups * length, dim)


def _ungrouped(attended: mx.array, queries: mx.array) -> mx.array:
    return attended.reshape(*queries.shape[:3], -1)
