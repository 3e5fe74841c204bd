"""Random numbers as a pure function of who asks for them.

A row's n-th draw depends on its seed, its choice number and n only, so there is no generator
state to keep, to share or to restore: a seeded row repeats whatever its neighbours do.

The sequence of a key is SplitMix64 read at an index: Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014, with the mixing constants of Vigna's reference
(prng.di.unimi.it/splitmix64.c). The key itself is a fold of the same mix over its parts.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
# 24 bits are what a float32 below one can hold, so host and device compare the same number.
_BITS = 24
_SHIFT = 64 - _BITS
_UNIT = 2.0**-_BITS


class Stream(enum.IntEnum):
    """Which decision a draw is for; each has its own sequence."""

    TOKEN = 0
    XTC = 1
    BLOCK = 2


def _mix(z: Any) -> Any:
    """SplitMix64's finaliser, for one int below 2^64 or an array of words."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def key(seed: int, choice: int, stream: Stream = Stream.TOKEN) -> int:
    """The 64-bit name of a sequence. Seeds -1 and 2^64 - 1 have different ones."""
    folded = 0
    for part in (seed & _MASK, int(seed < 0), choice, int(stream)):
        folded = _mix((folded + part + _GOLDEN) & _MASK)
    return int(folded)


def uniform(seed: int, choice: int, position: int, stream: Stream = Stream.TOKEN) -> float:
    """The draw at `position` (0 for the first token of an answer): uniform in [0, 1)."""
    word = _mix((key(seed, choice, stream) + (position + 1) * _GOLDEN) & _MASK)
    return float((word >> _SHIFT) * _UNIT)


def uniforms(keys: Words, positions: Words) -> NDArray[np.float32]:
    """`uniform` for many sequences at once, one position each."""
    words = _words(keys, positions)
    unit: NDArray[np.float32] = ((words >> np.uint64(_SHIFT)) * _UNIT).astype(np.float32)
    return unit


def gumbels(keys: Words, positions: Words, count: int) -> NDArray[np.float32]:
    """`count` draws each of the standard Gumbel distribution (R, count), at one position of each
    sequence: the word there starts a sequence of its own.

    52 bits and half a step keep the number below inside (0, 1), and the logarithm of its
    complement is exact where it matters, near the largest draws.
    """
    starts = _words(keys, positions)[:, None]
    words = _words(starts, np.arange(count, dtype=np.uint64))
    unit = ((words >> np.uint64(12)) + 0.5) * 2.0**-52
    noise: NDArray[np.float32] = (-np.log(-np.log1p(-unit))).astype(np.float32)
    return noise


def _words(keys: Words, positions: Words) -> Words:
    words: Words = _mix(keys + (positions + np.uint64(1)) * np.uint64(_GOLDEN))
    return words
