"""Which logits of which rows change before sampling, and how.

Biases, penalties and masked end tokens all touch few of the B x V logits. They are gathered
into one list of (flat position, change) pairs for the whole batch, so the device sees one
gather and one scatter whatever the rows ask for. Pure numpy.

Per entry the order of the wire contract holds: bias, then repetition (positive logits divided,
others multiplied; Keskar et al. 2019, arxiv.org/abs/1909.05858), then presence and frequency.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from headrace.actors.engine.rows import Row
from headrace.runtime.contracts import Sampling

# A bias this low takes the token out altogether (wire contract 3.2).
MASKING_BIAS = -100.0

Positions = NDArray[np.int64]
Values = NDArray[np.float32]


@attrs.frozen(eq=False)
class Edits:
    """Changes to a (B, V) array of logits, one per distinct flat position row * V + token."""

    positions: Any
    bias: Any
    divisor: Any
    minus: Any

    def on(self, xp: Any) -> Edits:
        """The same with arrays of `xp`, numpy or mlx.core."""
        fields = (self.positions, self.bias, self.divisor, self.minus)
        return Edits(*(xp.asarray(field) for field in fields))

    def apply(self, xp: Any, logits: Any) -> Any:
        """Changed logits of the same shape; `xp` as in `on`. The argument is left as it is."""
        flat = xp.array(logits).reshape(-1)
        value = flat[self.positions] + self.bias
        value = xp.where(value < 0, value * self.divisor, value / self.divisor) - self.minus
        flat[self.positions] = value
        return flat.reshape(logits.shape)


def penalised(sampling: Sampling) -> bool:
    """Whether the row's logits depend on the tokens it has seen."""
    return (
        sampling.repetition_penalty != 1.0
        or sampling.presence_penalty != 0.0
        or sampling.frequency_penalty != 0.0
    )


def edits(rows: Sequence[Row], end_tokens: Sequence[int], vocab_size: int) -> Edits | None:
    """What the given rows (in batch order) ask for at this step; None when nothing."""
    biased = _gather(_biases(rows, end_tokens), vocab_size)
    repeated = _gather(_contexts(rows, "repetition"), vocab_size)
    present = _gather(_contexts(rows, "presence"), vocab_size)
    frequent = _gather(_contexts(rows, "frequency"), vocab_size)
    keys = np.concatenate([part[0] for part in (biased, repeated, present, frequent)])
    if not keys.size:
        return None
    positions, slots = np.unique(keys, return_inverse=True)
    sizes = np.cumsum([biased[0].size, repeated[0].size, present[0].size])
    of_bias, of_repetition, of_presence, of_frequency = np.split(slots, sizes)
    bias = np.zeros(positions.size, dtype=np.float32)
    divisor = np.ones(positions.size, dtype=np.float32)
    minus = np.zeros(positions.size, dtype=np.float32)
    np.add.at(bias, of_bias, biased[1])
    # Assigned, not added: once per distinct token, however often it occurs.
    divisor[of_repetition] = repeated[1]
    minus[of_presence] = present[1]
    np.add.at(minus, of_frequency, frequent[1])
    return Edits(positions, bias, divisor, minus)


def _biases(
    rows: Sequence[Row], end_tokens: Sequence[int]
) -> Iterable[tuple[int, Sequence[int], Any]]:
    for index, row in enumerate(rows):
        sampling = row.spec.sampling
        if sampling.logit_bias:
            tokens, values = zip(*sampling.logit_bias, strict=True)
            yield index, tokens, [-np.inf if v <= MASKING_BIAS else v for v in values]
        if sampling.ignore_eos or row.sampled < sampling.min_tokens:
            yield index, end_tokens, -np.inf


def _contexts(rows: Sequence[Row], kind: str) -> Iterable[tuple[int, Positions, float]]:
    off = 1.0 if kind == "repetition" else 0.0
    for index, row in enumerate(rows):
        penalty = getattr(row.spec.sampling, f"{kind}_penalty")
        if penalty != off:
            size = getattr(row.spec.sampling, f"{kind}_context_size")
            yield index, row.window(size), penalty


def _gather(entries: Iterable[tuple[int, Any, Any]], vocab_size: int) -> tuple[Positions, Values]:
    """(row index, tokens, value or values) entries as flat positions and their values."""
    positions = [np.empty(0, dtype=np.int64)]
    values = [np.empty(0, dtype=np.float32)]
    for index, tokens, value in entries:
        at = np.asarray(tokens, dtype=np.int64) + index * vocab_size
        positions.append(at)
        values.append(np.broadcast_to(np.asarray(value, dtype=np.float32), at.shape))
    return np.concatenate(positions), np.concatenate(values)
