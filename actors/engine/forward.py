"""Forward passes of a model over token ids."""

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


def all_logits(model: Any, cache: Cache, tokens: Sequence[int]) -> mx.array:
    """One row's next tokens into its cache, and float32 logits (T, V) after each of them."""
    logits: mx.array = model(mx.array([tokens]), cache=cache)[0].astype(mx.float32)
    mx.eval(logits, kv.arrays(cache))
    return logits


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
