"""Forward passes of a model over token ids, and what can be said of them in advance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from headrace.actors.engine import kv
from headrace.actors.engine.kv import Cache


def advance(model: Any, cache: Cache, tokens: Sequence[int]) -> None:
    """Compute one row's next tokens into its cache, and nothing that only logits need."""
    model(mx.array([tokens]), cache=cache)
    mx.eval(kv.arrays(cache))


def advance_together(model: Any, cache: Cache, tokens: Sequence[Sequence[int]]) -> None:
    """The same for the rows of a batch cache, each with its own number of tokens."""
    lengths = [len(row) for row in tokens]
    longest = max(lengths)
    padded = [[*row, *[0] * (longest - len(row))] for row in tokens]
    kv.prepare(cache, lengths)
    model(mx.array(padded), cache=cache)
    mx.eval(kv.arrays(cache))
    kv.finalize(cache)
    mx.eval(kv.arrays(cache))


def next_logits(model: Any, cache: Cache, tokens: mx.array) -> mx.array:
    """Lazy float32 logits (B, V) after one more token for each row; `tokens` is (B,)."""
    logits: mx.array = model(tokens[:, None], cache=cache)[:, -1, :]
    return logits.astype(mx.float32)


def can_batch(model: Any, vocab_size: int) -> bool:
    """Whether this model computes rows of different lengths in one pass as it does alone.

    Some caches cannot be merged, and some models take a cache's offset for one number. Tried on
    two short rows rather than listed by name.
    """
    if not kv.mergeable(kv.fresh(model)):
        return False
    short, long = [[1 % vocab_size], [token % vocab_size for token in range(2, 7)]]
    alone = mx.concatenate([_last_logits(model, row) for row in (short, long)])
    try:
        caches = [_prefix(model, row) for row in (short, long)]
        last = mx.array([short[-1], long[-1]])
        together = next_logits(model, kv.joined(caches), last)
        # A wider batch may round differently; another row's tokens or positions give far more.
        error, scale = mx.abs(together - alone).max(), mx.abs(alone[0] - alone[1]).max()
        return bool((error <= 0.25 * scale).item())
    except Exception:
        return False


def _prefix(model: Any, tokens: Sequence[int]) -> Cache:
    cache = kv.fresh(model)
    if len(tokens) > 1:
        advance(model, cache, tokens[:-1])
    return cache


def _last_logits(model: Any, tokens: Sequence[int]) -> mx.array:
    return next_logits(model, _prefix(model, tokens), mx.array([tokens[-1]]))
