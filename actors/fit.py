"""Whether a model fits into memory, with how long a context, and how fast it could be. Pure.

The figures are arithmetic (`runtime.footprint`) over what a model's files say, or over what its
caches showed once it was loaded. Decoding reads every weight and every cached value once for each
token, so memory bandwidth over these bytes is the most tokens per second that one row can have.
"""

from __future__ import annotations

import attrs

from headrace.runtime.contracts import ModelInfo

# A model that cannot hold so many tokens beside its weights is of no use (wire contract 2.2).
LEAST_CONTEXT_TOKENS = 512


@attrs.frozen
class Fit:
    """One row of `context_tokens` beside the weights, at its worst moment. Sizes in bytes."""

    context_tokens: int
    fits: bool
    weights_bytes: int
    kv_bytes: int
    transient_bytes: int
    total_bytes: int
    usable_bytes: int
    # The longest context for which there is room, at most the model's own.
    max_safe_context: int
    # None where the machine's memory bandwidth is not known.
    predicted_decode_tps: float | None


def fit(
    info: ModelInfo,
    context_tokens: int,
    usable_bytes: int,
    chunk_tokens: int,
    bandwidth_bytes: float | None = None,
) -> Fit:
    """`chunk_tokens` is the longest prefill chunk, `bandwidth_bytes` what memory gives a second."""
    footprint = info.footprint
    kv_bytes = footprint.row_bytes(context_tokens)
    transient_bytes = footprint.lone_bytes(context_tokens, chunk_tokens) - kv_bytes
    total_bytes = info.weights_bytes + kv_bytes + transient_bytes
    read_bytes = info.weights_bytes + kv_bytes
    return Fit(
        context_tokens=context_tokens,
        fits=total_bytes <= usable_bytes,
        weights_bytes=info.weights_bytes,
        kv_bytes=kv_bytes,
        transient_bytes=transient_bytes,
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        max_safe_context=safe_context(info, usable_bytes, chunk_tokens),
        predicted_decode_tps=bandwidth_bytes / read_bytes if bandwidth_bytes else None,
    )


def safe_context(info: ModelInfo, usable_bytes: int, chunk_tokens: int) -> int:
    """The most tokens that a row may have when the model has all usable memory; 0 for none."""
    room_bytes = usable_bytes - info.weights_bytes
    return info.footprint.longest(room_bytes, chunk_tokens, info.context_window)


def least_bytes(info: ModelInfo, chunk_tokens: int) -> int:
    """What a model needs to be of any use: its weights and a short context beside them."""
    context = min(LEAST_CONTEXT_TOKENS, info.context_window)
    return info.weights_bytes + info.footprint.lone_bytes(context, chunk_tokens)
