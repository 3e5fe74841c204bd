"""Log-probabilities of the tokens of one row, for rows that ask for them. Numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.runtime.ports import TokenScores

# What is sent for a token that has no chance at all (wire contract 3.8).
LEAST = -9999.0


def scores(logits: NDArray[np.float32], token: int, alternatives: int) -> TokenScores:
    """Scores of one row's logits (V,) as they are before the draw: log-softmax over all of them.

    The likeliest `alternatives` come in descending order; of equal ones the smaller id is first.
    """
    total = float(np.logaddexp.reduce(logits.astype(np.float64)))
    top: list[tuple[int, float]] = []
    if alternatives:
        found = np.argpartition(logits, -alternatives)[-alternatives:]
        ordered = sorted(found.tolist(), key=lambda index: (-float(logits[index]), index))
        top = [(index, _bounded(float(logits[index]) - total)) for index in ordered]
    return TokenScores(_bounded(float(logits[token]) - total), tuple(top))


def _bounded(logprob: float) -> float:
    return logprob if logprob > LEAST else LEAST
