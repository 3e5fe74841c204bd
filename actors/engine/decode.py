"""The rows that decode together, and one step of them.

A `Batch` owns the cache its rows lie in; a lone row keeps the model's own cache, which is
cheaper than a batch of one. It samples on the host and computes nothing that nobody takes.

`LookaheadBatch` samples on the device and submits the next forward pass before it reads this
step's tokens, so the device never waits for the host. What is in flight for a row that is
removed meanwhile is dropped; a row's last token submits nothing more for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from headrace.actors.engine import forward, kv
from headrace.actors.engine.kv import Cache
from headrace.actors.engine.mixed import logits_beside
from headrace.actors.engine.prefixes import Prefixes
from headrace.actors.engine.rows import Row
from headrace.actors.engine.sampling import Sampler, Vocabulary

# Steps for which room is kept for the next row after one has left.
_PATIENCE = 8


class Batch:
    """Rows decoded in step. `admit` and `settle` come between steps, `step` needs rows.

    After an exception from any of them the batch is of no use and its rows are lost.
    """

    # Where sampling runs.
    _xp: Any = np
    # Tokens in the cache beyond those that the rows needed for what they were given.
    _ahead = 0

    def __init__(
        self, model: Any, vocabulary: Vocabulary, prefixes: Prefixes, *, banded: bool = False
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._prefixes = prefixes
        # Whether rows of different lengths lie apart.
        self._banded = banded
        # Row i lies in slot i of the cache.
        self.rows: list[Row] = []
        self._cache: Cache = []
        self._sampler: Sampler | None = None
        # Steps since a row joined or left.
        self._calm = 0

    def admit(self, rows: Sequence[Row]) -> list[int]:
        """Take in rows whose prompts are computed, and their caches. Returns the places, among the
        rows that were there and these behind them, of all rows in their new order."""
        caches = [row.cache or kv.fresh(self._model) for row in rows]
        for row in rows:
            row.cache = None
        if len(self.rows) > 1:
            order = kv.admit(self._cache, caches)
        else:
            order = self._join([self._cache, *caches] if self.rows else caches)
        together = [*self.rows, *rows]
        order = order or list(range(len(together)))
        self.rows = [together[i] for i in order]
        self._changed()
        return order

    def _join(self, caches: list[Cache]) -> list[int] | None:
        if len(caches) == 1:
            self._cache = caches[0]
        elif self._banded:
            self._cache, order = kv.banded(caches)
            return order
        else:
            self._cache = kv.joined(caches)
        return None

    def settle(self) -> None:
        """Let go of the rows that need no further token."""
        kept = [i for i, row in enumerate(self.rows) if not self._done(row)]
        if len(kept) < len(self.rows):
            self._select(kept)
        self._calm += 1
        if self._calm == _PATIENCE:
            kv.give_back(self._cache)

    def take(self, joining: Sequence[Row]) -> None:
        """What comes before each step: some go, others come."""
        self.settle()
        if joining:
            self.admit(joining)

    def step(self) -> list[tuple[Row, int]]:
        """One token for each row."""
        logits = self._logits(mx.array([row.last for row in self.rows]))
        mx.eval(logits)
        return self._drawn(logits)

    def step_beside(self, other: Row, count: int) -> list[tuple[Row, int]]:
        """The same in one pass with the next `count` tokens of another row's prompt."""
        if other.cache is None:
            other.cache = kv.fresh(self._model)
        last, piece = [row.last for row in self.rows], other.next_tokens(count)
        logits = logits_beside(self._model, self._cache, last, other.cache, piece)
        other.computed += count
        return self._drawn(logits[:, : self._vocabulary.size])

    def _drawn(self, logits: mx.array) -> list[tuple[Row, int]]:
        return _taken(self.rows, _overruled(self.rows, self._sample(np.asarray(logits)).tolist()))

    def hand_in(self, row: Row) -> None:
        """Let what a row leaves behind be kept for others."""
        index = self.rows.index(row)
        if self._prefixes.grain == "state":
            self._prefixes.keep_answer(row, self._alone(index), 0, self._ahead)
        else:
            self._prefixes.keep_answer(row, self._cache, index, self._ahead)

    @property
    def nbytes(self) -> int:
        """Bytes of KV of the rows that have not been removed."""
        count = len(self.rows)
        gone = [index for index, row in enumerate(self.rows) if row.gone]
        return kv.nbytes(self._cache) - sum(
            kv.row_nbytes(self._cache, index, count) for index in gone
        )

    def _done(self, row: Row) -> bool:
        return row.gone or row.exhausted

    def _changed(self) -> None:
        self._sampler = None
        self._calm = 0

    def _select(self, kept: list[int]) -> list[int]:
        """Keep these rows. Returns their order: the last ones fill the gaps of those that go."""
        staying = set(kept)
        for index, row in enumerate(self.rows):
            if index not in staying and not row.gone:
                self.hand_in(row)
        order = kv.arranged(self._cache, kept)
        if not order:
            self._cache = []
        elif len(order) == 1:
            self._cache = self._alone(order[0])
        else:
            kv.select(self._cache, order)
        self.rows = [self.rows[i] for i in order]
        self._changed()
        return order

    def _alone(self, index: int) -> Cache:
        """The cache of one row by itself."""
        return self._cache if len(self.rows) == 1 else kv.extracted(self._cache, index)

    def _logits(self, tokens: mx.array) -> mx.array:
        logits = forward.next_logits(self._model, self._cache, tokens)
        return logits[:, : self._vocabulary.size]

    def _sample(self, logits: Any) -> Any:
        return self._current_sampler().sample(logits)

    def _current_sampler(self) -> Sampler:
        if self._sampler is None:
            self._sampler = Sampler(self.rows, self._vocabulary, self._xp)
        return self._sampler


class LookaheadBatch(Batch):
    """The same with a step in flight between any two calls."""

    _xp = mx
    _ahead = 1

    def __init__(
        self, model: Any, vocabulary: Vocabulary, prefixes: Prefixes, *, banded: bool = False
    ) -> None:
        super().__init__(model, vocabulary, prefixes, banded=banded)
        # Tokens of the step in flight, (B,), not read yet.
        self._flying = mx.array([], dtype=mx.uint32)

    def admit(self, rows: Sequence[Row]) -> list[int]:
        """The same. Their first step is submitted at once, apart from the one in flight."""
        first = _FirstStep(self._model, self._vocabulary, self._prefixes)
        first.admit(rows)
        tokens = first.submit()
        first.release()
        order = super().admit(rows)
        self._flying = mx.concatenate([self._flying, tokens])[mx.array(order, dtype=mx.uint32)]
        mx.async_eval(self._flying)
        return order

    def _done(self, row: Row) -> bool:
        # The last token of an exhausted row is in flight.
        return row.gone

    def step(self) -> list[tuple[Row, int]]:
        if any(row.forced for row in self.rows):
            read_early: Any = self._flying.tolist()
            self._flying = mx.array(_overruled(self.rows, read_early), dtype=mx.uint32)
        rows, tokens = self.rows, self._flying
        kept = [i for i, row in enumerate(rows) if not row.exhausted]
        if len(kept) < len(rows):
            self._select(kept)
        submitted = self._submit() if kept else None
        read: Any = tokens.tolist()
        taken = _taken(rows, read)
        if submitted is not None:
            # Penalties need the tokens that have just been read.
            self._fly(submitted)
        return taken

    def _submit(self) -> mx.array | None:
        """Start the next forward pass. Returns its logits where sampling has to wait."""
        logits = self._logits(self._flying)
        if self._current_sampler().needs_history:
            mx.async_eval(logits)
            return logits
        self._fly(logits)
        return None

    def _fly(self, logits: mx.array) -> None:
        self._flying = self._sample(logits)
        mx.async_eval(self._flying)

    def _select(self, kept: list[int]) -> list[int]:
        order = super()._select(kept)
        self._flying = self._flying[mx.array(order, dtype=mx.uint32)]
        return order


class _FirstStep(Batch):
    """Rows on their way into a lookahead batch."""

    _xp = mx

    def submit(self) -> Any:
        """Lazy first tokens (B,); their inputs, the prompts' last tokens, are known."""
        return self._sample(self._logits(mx.array([row.last for row in self.rows])))

    def release(self) -> None:
        """Give each row its cache back."""
        for index, row in enumerate(self.rows):
            row.cache = self._alone(index)


def _overruled(rows: Sequence[Row], tokens: Sequence[int]) -> list[int]:
    return [
        row.forced.popleft() if row.forced else token
        for row, token in zip(rows, tokens, strict=True)
    ]


def _taken(rows: Sequence[Row], tokens: Sequence[int]) -> list[tuple[Row, int]]:
    for row, token in zip(rows, tokens, strict=True):
        row.take(token)
    return list(zip(rows, tokens, strict=True))
