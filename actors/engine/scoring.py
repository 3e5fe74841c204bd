"""Log-probabilities of the tokens of one row, for rows that ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
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


def scores_of_all(logits: mx.array, tokens: Sequence[int], alternatives: int) -> list[TokenScores]:
    """The same for many places of a prompt at once: logits (T, V) and the token of each place."""
    total = mx.logsumexp(logits, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logits, mx.array(list(tokens))[:, None], axis=-1) - total
    found = mx.argpartition(-logits, max(alternatives - 1, 0), axis=-1)[:, :alternatives]
    likeliest = mx.take_along_axis(logits, found, axis=-1) - total
    columns: list[Any] = [chosen[:, 0].tolist(), found.tolist(), likeliest.tolist()]
    return [
        TokenScores(_bounded(logprob), _ranked(ids, logprobs))
        for logprob, ids, logprobs in zip(*columns, strict=True)
    ]


def _ranked(ids: Sequence[int], logprobs: Sequence[float]) -> tuple[tuple[int, float], ...]:
    ranked = sorted(zip(ids, logprobs, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return tuple((token, _bounded(logprob)) for token, logprob in ranked)


def _bounded(logprob: float) -> float:
    return logprob if logprob > LEAST else LEAST
