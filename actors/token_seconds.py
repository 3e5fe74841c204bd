"""What one more prompt token costs, by how many are before it. Pure.

Attention looks at all tokens before, so behind 2,000 a token costs two to three times what it costs
at the beginning. A line is laid through what was measured, in which older measurements count less:
means, variance and covariance are moved by each (Welford's method, with weights that fade).
"""

from __future__ import annotations

import attrs

# Depths this near to each other tell no slope from noise.
NEAR_TOKENS = 64
# A prompt that begins where none has been for a while is taken to cost between half and twice what
# the last ones did.
MOST_CHANGE = 2.0


@attrs.define
class TokenSeconds:
    """`measured` comes in order of time. Depths are in tokens, costs in seconds for each token."""

    _depth: float | None = None
    _seconds: float = 0.0
    _variance: float = 0.0
    _covariance: float = 0.0

    def measured(self, depth: float, seconds: float, weight: float) -> None:
        """A token cost so much. `weight` is the share of this against all before it."""
        if self._depth is None:
            self._depth, self._seconds = depth, seconds
            return
        deeper, dearer = depth - self._depth, seconds - self._seconds
        self._depth += weight * deeper
        self._seconds += weight * dearer
        self._variance = (1 - weight) * (self._variance + weight * deeper * deeper)
        self._covariance = (1 - weight) * (self._covariance + weight * deeper * dearer)

    def at(self, depth: float) -> float | None:
        """What a token costs there; None before anything was measured."""
        if self._depth is None:
            return None
        slope = max(0.0, self._covariance / (self._variance + NEAR_TOKENS**2))
        foreseen = self._seconds + slope * (depth - self._depth)
        return min(max(foreseen, self._seconds / MOST_CHANGE), self._seconds * MOST_CHANGE)
