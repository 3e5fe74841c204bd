"""Rows that are read: hidden states as a vector, or logits of labels behind continuations.

They are computed beside the rows that generate, in the same chunks, and never decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from headrace.actors.engine import kv
from headrace.actors.engine.backbone import backbone
from headrace.actors.engine.continuing import Continuations
from headrace.actors.engine.kv import Cache
from headrace.actors.engine.pooling import finished, pooled
from headrace.actors.engine.rows import Row
from headrace.runtime.ports import Pooling, RowRead, RowSpec


class PooledRow:
    """A text on its way to a vector. Alone it may be computed in chunks, with KV of its own."""

    def __init__(self, spec: RowSpec, pooling: Pooling) -> None:
        self.spec = spec
        self.pooling = pooling
        self.computed = 0
        self._cache: Cache | None = None
        self._states: mx.array | None = None

    @property
    def remaining(self) -> int:
        return len(self.spec.tokens) - self.computed

    @property
    def nbytes(self) -> int:
        return 0 if self._cache is None else kv.nbytes(self._cache)

    def advance(self, model: Any, count: int) -> RowRead | None:
        """Compute so many tokens more; the vector with the last of them."""
        if not self.computed and count == self.remaining:
            return pool_together(model, [self])[0]
        if self._cache is None:
            self._cache = kv.fresh(model)
        piece = self.spec.tokens[self.computed : self.computed + count]
        hidden = backbone(model)(mx.array([piece]), cache=self._cache)[0].astype(mx.float32)
        self._states = self._joined(hidden)
        mx.eval(self._states, kv.arrays(self._cache))
        self.computed += count
        return None if self.remaining else self._read(self._states)

    def _joined(self, hidden: mx.array) -> mx.array:
        """What has to be known of all tokens so far, as one state (H,)."""
        before = self._states
        match self.pooling.kind:
            case "mean":
                total = hidden.sum(axis=0)
                return total if before is None else before + total
            case "first":
                return hidden[0] if before is None else before
            case "last":
                return hidden[-1]

    def _read(self, states: mx.array) -> RowRead:
        vector = np.asarray(states)
        if self.pooling.kind == "mean":
            vector = vector / len(self.spec.tokens)
        return RowRead(self.spec.row, vector=finished(vector, self.pooling))


def pool_together(model: Any, rows: Sequence[PooledRow]) -> list[RowRead]:
    """Whole texts in one pass without KV. Padding on the right is never looked at: a token sees
    only those before it."""
    longest = max(len(row.spec.tokens) for row in rows)
    padded = [[*row.spec.tokens, *[0] * (longest - len(row.spec.tokens))] for row in rows]
    hidden = backbone(model)(mx.array(padded))
    lengths = [len(row.spec.tokens) for row in rows]
    vectors = pooled(hidden, lengths, [row.pooling for row in rows])
    for row in rows:
        row.computed = len(row.spec.tokens)
    return [RowRead(row.spec.row, vector=vector) for row, vector in zip(rows, vectors, strict=True)]


class Readings:
    """The rows of one engine that are read. `prompt_of` a label row is a row like any other that
    says nothing; only what comes behind its prompt is kept here."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._pooled: dict[int, PooledRow] = {}
        self._continued: dict[int, Continuations] = {}

    def add(self, spec: RowSpec) -> bool:
        """Take in what is to be read of a row. True if that is all there is to the row.

        Raises ValueError where the model shows no hidden states.
        """
        if spec.pooling is not None:
            backbone(self._model)
            self._pooled[spec.row] = PooledRow(spec, spec.pooling)
        elif spec.continuations:
            self._continued[spec.row] = Continuations(spec)
        return spec.pooling is not None

    def remove(self, row: int) -> None:
        self._pooled.pop(row, None)
        self._continued.pop(row, None)

    def remaining(self, row: int) -> int:
        """Tokens left of what is kept here."""
        if row in self._pooled:
            return self._pooled[row].remaining
        return self._continued[row].remaining if row in self._continued else 0

    def is_pooled(self, row: int) -> bool:
        return row in self._pooled

    def pool(self, chunks: Sequence[tuple[int, int]]) -> list[RowRead]:
        """Advance texts by so many tokens: several to their ends in one pass, or one alone."""
        rows = [self._pooled[row] for row, _ in chunks]
        if len(rows) > 1:
            return pool_together(self._model, rows)
        read = rows[0].advance(self._model, chunks[0][1])
        return [] if read is None else [read]

    def left(self, rows: Iterable[int]) -> int:
        """The same of several."""
        return sum(map(self.remaining, rows))

    def go_on(self, row: Row, count: int, *, partly: bool) -> list[RowRead]:
        """Compute up to so many tokens behind a row's complete prompt."""
        row.cache = row.cache or kv.fresh(self._model)
        continued = self._continued[row.spec.row]
        continued.advance(self._model, row.cache, count, partly=partly)
        return [] if continued.remaining else [RowRead(row.spec.row, logits=continued.logits)]

    @property
    def nbytes(self) -> int:
        return sum(row.nbytes for row in self._pooled.values())

    def close(self) -> None:
        self._pooled, self._continued = {}, {}
        self._model = None
