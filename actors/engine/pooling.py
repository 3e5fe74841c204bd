"""Hidden states of several texts as one vector each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from headrace.runtime.ports import Pooling


def pooled(hidden: mx.array, lengths: Sequence[int], poolings: Sequence[Pooling]) -> list[bytes]:
    """`hidden` is (B, T, H) with the true tokens of each row first; the vectors are float32,
    little-endian."""
    rows = [
        _pooled(hidden[index, :length], pooling)
        for index, (length, pooling) in enumerate(zip(lengths, poolings, strict=True))
    ]
    mx.eval(rows)
    return [finished(np.asarray(row), pooling) for row, pooling in zip(rows, poolings, strict=True)]


def finished(vector: NDArray[np.float32], pooling: Pooling) -> bytes:
    """Cut to what was asked for and brought to the length 1, as the model's files have it."""
    wide: NDArray[Any] = vector[: pooling.dimensions].astype(np.float64)
    if pooling.normalized or pooling.dimensions is not None:
        wide = wide / max(float(np.linalg.norm(wide)), 1e-12)
    return wide.astype("<f4").tobytes()


def _pooled(states: mx.array, pooling: Pooling) -> mx.array:
    """Of one text, (T, H)."""
    states = states.astype(mx.float32)
    match pooling.kind:
        case "mean":
            return states.mean(axis=0)
        case "first":
            return states[0]
        case "last":
            return states[-1]
