"""Which logits of which rows change before sampling, and how.

Biases, penalties and masked end tokens all touch few of the B x V logits. They are gathered
into one list of flat positions and changes for the whole batch, so a step costs one gather and
one scatter whatever the rows ask for. Numpy only; the lists are applied by either array library.

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
        """Changed logits of the same shape. A numpy array may be changed in place."""
        flat = logits.reshape(-1)
        value = flat[self.positions] + self.bias
        value = xp.where(value < 0, value * self.divisor, value / self.divisor) - self.minus
        flat[self.positions] = value
        return flat.reshape(logits.shape)


class Penalties:
    """What a fixed list of rows, in batch order, asks to have changed."""

    def __init__(self, rows: Sequence[Row], end_tokens: Sequence[int], vocab_size: int) -> None:
        self._rows = rows
        self._end_tokens = np.array(end_tokens, dtype=np.int64)
        self._vocab_size = vocab_size
        self._biases = list(_biases(rows, vocab_size))
        self._repetition = _Contexts(rows, "repetition", 1.0, vocab_size)
        self._presence = _Contexts(rows, "presence", 0.0, vocab_size)
        self._frequency = _Contexts(rows, "frequency", 0.0, vocab_size)

    @property
    def follow_history(self) -> bool:
        """Whether the changes depend on the tokens that the rows have had."""
        return any((self._repetition, self._presence, self._frequency))

    def edits(self) -> Edits | None:
        """The changes for the next token of each row; None if there are none."""
        biased = _joined([*self._biases, *self._held_ends()])
        repeated, present = self._repetition.entries(), self._presence.entries()
        frequent = self._frequency.entries()
        parts = (biased, repeated, present, frequent)
        keys = np.concatenate([positions for positions, _ in parts])
        if not keys.size:
            return None
        positions, slots = np.unique(keys, return_inverse=True)
        ends = np.cumsum([part[0].size for part in parts[:-1]])
        of_bias, of_repetition, of_presence, of_frequency = np.split(slots, ends)
        bias, minus = np.zeros((2, positions.size), dtype=np.float32)
        divisor = np.ones(positions.size, dtype=np.float32)
        np.add.at(bias, of_bias, biased[1])
        # Assigned, not added: once per distinct token, however often it occurs.
        divisor[of_repetition] = repeated[1]
        minus[of_presence] = present[1]
        np.add.at(minus, of_frequency, frequent[1])
        return Edits(positions, bias, divisor, minus)

    def steps_unchanged(self) -> float:
        """For how many steps the last `edits` hold; called before they are counted."""
        if self.follow_history:
            return 1
        missing = (row.spec.sampling.min_tokens - row.sampled for row in self._rows)
        return min((steps for steps in missing if steps > 0), default=np.inf)

    def _held_ends(self) -> Iterable[tuple[Positions, Values]]:
        """End tokens of the rows that may not end, or not yet."""
        for index, row in enumerate(self._rows):
            if row.spec.sampling.ignore_eos or row.sampled < row.spec.sampling.min_tokens:
                positions = self._end_tokens + index * self._vocab_size
                yield positions, np.full(positions.size, -np.inf, dtype=np.float32)


class _Contexts:
    """The rows that have one kind of penalty, and the windows of tokens it looks at."""

    def __init__(self, rows: Sequence[Row], kind: str, off: float, vocab_size: int) -> None:
        penalties = [getattr(row.spec.sampling, f"{kind}_penalty") for row in rows]
        chosen = [index for index, penalty in enumerate(penalties) if penalty != off]
        self._windows = [
            (rows[i].window, getattr(rows[i].spec.sampling, f"{kind}_context_size")) for i in chosen
        ]
        self._penalties = np.array([penalties[i] for i in chosen], dtype=np.float32)
        self._starts = np.array(chosen, dtype=np.int64) * vocab_size

    def __bool__(self) -> bool:
        return bool(self._windows)

    def entries(self) -> tuple[Positions, Values]:
        """Flat positions, repeated as tokens are, and the penalty of each."""
        if not self._windows:
            return _joined([])
        tokens = [window(size) for window, size in self._windows]
        lengths = [window.size for window in tokens]
        positions = np.concatenate(tokens) + np.repeat(self._starts, lengths)
        return positions, np.repeat(self._penalties, lengths)


def _biases(rows: Sequence[Row], vocab_size: int) -> Iterable[tuple[Positions, Values]]:
    for index, row in enumerate(rows):
        if row.spec.sampling.logit_bias:
            tokens, values = zip(*row.spec.sampling.logit_bias, strict=True)
            bias = np.array(values, dtype=np.float32)
            bias[bias <= MASKING_BIAS] = -np.inf
            yield np.array(tokens, dtype=np.int64) + index * vocab_size, bias


def _joined(entries: Sequence[tuple[Positions, Values]]) -> tuple[Positions, Values]:
    positions = [np.empty(0, dtype=np.int64), *(entry[0] for entry in entries)]
    values = [np.empty(0, dtype=np.float32), *(entry[1] for entry in entries)]
    return np.concatenate(positions), np.concatenate(values)
