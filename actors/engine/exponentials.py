"""Exponentials by numpy, for a backend that computes them one number at a time."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models import activations

# Numbers that stay in a core's cache from one pass over them to the next.
_BLOCK = 1 << 17
# Numbers that are worth an evaluation of their own, while which nothing else is being prepared.
MANY = 1 << 13


def exponentials_in_place(scores: Any) -> Any:
    """Make each of scores (..., length) its exponential, less the greatest of its row first, and
    return their sums (..., 1): the softmax's numerators and denominators."""
    length = scores.shape[-1]
    rows = scores.reshape(-1, length)
    sums = np.empty((len(rows), 1), dtype=rows.dtype)
    portion = max(1, _BLOCK // length)
    for begin in range(0, len(rows), portion):
        block = rows[begin : begin + portion]
        np.subtract(block, block.max(axis=-1, keepdims=True), out=block)
        np.exp(block, out=block)
        np.sum(block, axis=-1, keepdims=True, out=sums[begin : begin + portion])
    return sums.reshape(*scores.shape[:-1], 1)


def cpu_swiglu(gate: mx.array, x: mx.array) -> mx.array:
    """mlx-lm's `swiglu`: x · gate / (1 + exp(-gate))."""
    if gate.size < MANY or gate.dtype != mx.float32:
        theirs: mx.array = activations.swiglu(gate, x)
        return theirs
    gates: Any = np.asarray(gate)
    below = np.negative(gates)
    with np.errstate(over="ignore"):
        np.exp(below, out=below)
    below += 1
    np.divide(gates, below, out=below)
    return mx.array(below) * x
