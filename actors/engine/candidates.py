"""The tokens that filters cannot fail to drop, left out before any sorting. Numpy only.

Sorting a whole vocabulary costs a host more than everything else that sampling does. Nearly all
of it can be ruled out by a single comparison per token, and what is left is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.actors.engine.filters import BLOCK, Filters

Logits = NDArray[np.float32]
Tokens = NDArray[np.int64]


def candidates(logits: Logits, filters: Filters, *, ranked: bool) -> tuple[Tokens, Logits, Logits]:
    """Token ids (R, K) in ascending order, their logits, and each row's total mass (R, 1).

    Rows with fewer than K are filled up with token 0 at -inf. `ranked` says whether top_k may
    rule tokens out by itself, which it may not where something comes between.
    """
    total = np.sum(np.exp(logits), axis=-1, keepdims=True)
    kept = logits >= _floor(logits, total, filters, ranked)
    found = [np.flatnonzero(row) for row in kept]
    widest = _rounded(max(1, max(ids.size for ids in found)))
    tokens = np.zeros((len(found), widest), dtype=np.int64)
    values = np.full((len(found), widest), -np.inf, dtype=np.float32)
    for index, ids in enumerate(found):
        tokens[index, : ids.size] = ids
        values[index, : ids.size] = logits[index, ids]
    return tokens, values, total


def _floor(logits: Logits, total: Logits, filters: Filters, ranked: bool) -> Logits:
    """A logit for each row below which its filters drop everything."""
    vocab_size = logits.shape[-1]
    # All tokens below (1 - top_p) / V together have less mass than top_p leaves out. Halved for
    # what rounding may add.
    with np.errstate(divide="ignore"):
        floor = np.log(0.5 * np.maximum(1 - filters.top_p, 0) * total / vocab_size)
    floor = np.maximum(floor, filters.log_min_p)
    # A row that does not ask for the filter must not have the others keep their whole vocabulary.
    asking = np.flatnonzero(filters.top_k[:, 0] < vocab_size) if ranked else ()
    if len(asking):
        cut = vocab_size - int(filters.top_k[asking].max())
        ranks = np.partition(logits[asking], cut, axis=-1)[:, cut, None]
        floor[asking] = np.maximum(floor[asking], ranks)
    lowest: Logits = floor.astype(np.float32)
    return lowest


def _rounded(count: int) -> int:
    return -(-count // BLOCK) * BLOCK
