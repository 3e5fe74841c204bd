"""One token for each row of a batch, with every row's own parameters.

What the rows ask for is laid out in arrays once, when the batch's membership changes; a step
then costs the same few array operations whatever the mix. Rows that do not ask for a filter do
not pay for one. The order of operations is the wire contract's (3.2).

Where the arithmetic runs is the caller's choice of `xp`: mlx.core keeps the tokens on the device
(they come out lazy), numpy works on the host, where for a CPU backend it is many times faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from headrace.actors.engine import drawing, draws, filters
from headrace.actors.engine.candidates import candidates
from headrace.actors.engine.drawing import Noise
from headrace.actors.engine.draws import Stream
from headrace.actors.engine.filters import BLOCK, Exclusion, Filters
from headrace.actors.engine.masks import MaskBuffer
from headrace.actors.engine.penalties import Edits, Penalties
from headrace.actors.engine.rows import Row
from headrace.actors.engine.scoring import scores
from headrace.runtime.contracts import Sampling

# Below this the distribution is a single token in float32.
_COLDEST = 1e-6


@attrs.frozen(eq=False)
class Vocabulary:
    """What sampling has to know of the tokens. Logits beyond `size` are padding."""

    size: int
    end_tokens: tuple[int, ...] = ()
    newline_tokens: tuple[int, ...] = ()

    def has(self, tokens: Iterable[int]) -> bool:
        """Whether all of these are tokens the model knows."""
        return all(0 <= token < self.size for token in tokens)

    def exempt(self) -> NDArray[np.bool_]:
        """The tokens that XTC spares, as a (size,) array."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[[*self.end_tokens, *self.newline_tokens]] = True
        return mask


def greedy(sampling: Sampling) -> bool:
    """Whether the row always takes its most likely token."""
    return (
        sampling.temperature < _COLDEST
        or sampling.top_p == 0
        or (sampling.top_k == 1 and sampling.xtc_probability == 0)
    )


class Sampler:
    """Samples for a fixed list of rows, in batch order."""

    def __init__(self, rows: Sequence[Row], vocabulary: Vocabulary, xp: Any) -> None:
        self._rows = list(rows)
        self._xp = xp
        self._penalties = Penalties(self._rows, vocabulary.end_tokens, vocabulary.size)
        # Whether a step can be sampled only after the host has read the step before it.
        self.needs_history = self._penalties.follow_history
        self._edits: Edits | None = None
        self._edits_hold_for = 0.0
        self._lots = list(_lots(self._rows, vocabulary, xp))
        self._masks = MaskBuffer([row.spec.mask for row in self._rows], vocabulary.size)
        self._scored = [i for i, row in enumerate(self._rows) if row.spec.logprobs is not None]

    def sample(self, logits: Any) -> Any:
        """Token ids (B,) from logits (B, V), float32, both arrays of `xp`.

        Counts one sampled token for each row. The logits are used up. A row of NaN gets some
        token and disturbs no other.
        """
        with np.errstate(all="ignore"):
            return self._sampled(logits)

    def _sampled(self, logits: Any) -> Any:
        edits = self._current_edits()
        if edits is not None:
            logits = edits.apply(self._xp, logits)
        if self._masks.needed:
            self._masks.fill()
            logits = self._masks.apply(self._xp, logits)
        tokens = self._xp.argmax(logits, axis=-1)
        for lot in self._lots:
            tokens = lot.draw_into(tokens, logits)
        for index in self._scored:
            row = self._rows[index]
            row.scores = scores(logits[index], int(tokens[index]), row.spec.logprobs or 0)
        for row in self._rows:
            row.sampled += 1
        return tokens

    def _current_edits(self) -> Edits | None:
        if self._edits_hold_for <= 0:
            found = self._penalties.edits()
            self._edits = None if found is None else found.on(self._xp)
            self._edits_hold_for = self._penalties.steps_unchanged()
        self._edits_hold_for -= 1
        return self._edits


def _lots(rows: Sequence[Row], vocabulary: Vocabulary, xp: Any) -> Iterator[_Lot]:
    """The rows that draw, apart by what a draw costs them."""
    drawing = [i for i, row in enumerate(rows) if not greedy(row.spec.sampling)]
    drawing.sort(key=lambda i: _effort(rows[i].spec.sampling))
    for _, indices in groupby(drawing, key=lambda i: _effort(rows[i].spec.sampling)):
        yield _Lot(rows, list(indices), vocabulary, xp)


def _effort(sampling: Sampling) -> int:
    """2 where the vocabulary has to be sorted, 1 for other filters, 0 for none."""
    if sampling.top_p < 1 or sampling.top_k > 0:
        return 2
    return int(sampling.min_p > 0 or sampling.xtc_probability > 0)


class _Lot:
    """Rows of a batch that draw by the same operations."""

    def __init__(
        self, rows: Sequence[Row], indices: list[int], vocabulary: Vocabulary, xp: Any
    ) -> None:
        self._xp = xp
        self._rows = [rows[i] for i in indices]
        self._indices = None if len(indices) == len(rows) else xp.asarray(np.array(indices))
        samplings = [row.spec.sampling for row in self._rows]
        self._temperature = xp.asarray(_column([s.temperature for s in samplings]))
        self._keys = self._sequence(Stream.TOKEN)
        self._block_keys = self._sequence(Stream.BLOCK)
        self._blocks = drawing.blocks_of(vocabulary.size)
        self._filters = _filters(samplings, vocabulary.size, xp) if _effort(samplings[0]) else None
        self._xtc = _column([s.xtc_threshold for s in samplings])
        self._xtc_odds = np.array([s.xtc_probability for s in samplings], dtype=np.float32)
        self._xtc_keys = self._sequence(Stream.XTC) if self._xtc_odds.any() else None
        self._exempt = xp.asarray(vocabulary.exempt())

    def draw_into(self, tokens: Any, logits: Any) -> Any:
        """`tokens` with the entries of these rows drawn anew."""
        if self._indices is None:
            return self._drawn(logits)
        tokens[self._indices] = self._drawn(logits[self._indices]).astype(tokens.dtype)
        return tokens

    def _drawn(self, logits: Any) -> Any:
        xp = self._xp
        positions = np.array([row.sampled for row in self._rows], dtype=np.uint64)
        noise = self._noise(positions)
        if self._filters is None:
            return drawing.drawn(xp, logits, self._temperature, noise)
        logits, excluded = filters.shifted(xp, logits), self._excluded(positions)
        if xp is np:
            return self._drawn_among_few(logits, self._filters, excluded, noise)
        total = xp.sum(xp.exp(logits), axis=-1, keepdims=True)
        exclusion = None if excluded is None else Exclusion(xp.asarray(excluded), self._exempt)
        narrowed = filters.narrowed(xp, logits, total, self._filters, exclusion)
        return drawing.drawn(xp, narrowed, self._temperature, noise)

    def _drawn_among_few(self, logits: Any, asked: Filters, excluded: Any, noise: Noise) -> Any:
        """The same on the host, without sorting the whole vocabulary."""
        tokens, few, total = candidates(logits, asked, ranked=excluded is None)
        exclusion = None if excluded is None else Exclusion(excluded, self._exempt[tokens])
        few = filters.narrowed(np, few, total, asked, exclusion)
        return drawing.drawn_among(tokens, few, self._temperature, noise)

    def _noise(self, positions: draws.Words) -> Noise:
        return Noise(
            self._xp.asarray(draws.gumbels(self._block_keys, positions, self._blocks)),
            self._xp.asarray(draws.gumbels(self._keys, positions, BLOCK)),
        )

    def _excluded(self, positions: draws.Words) -> NDArray[np.float32] | None:
        """XTC thresholds of the rows whose coin says so, inf for others; None if for none."""
        if self._xtc_keys is None:
            return None
        hit = draws.uniforms(self._xtc_keys, positions) < self._xtc_odds
        return np.where(hit[:, None], self._xtc, np.float32(np.inf)) if hit.any() else None

    def _sequence(self, stream: Stream) -> draws.Words:
        keys = [draws.key(r.spec.sampling.seed, r.spec.choice, stream) for r in self._rows]
        return np.array(keys, dtype=np.uint64)


def _column(values: Sequence[float]) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)[:, None]


def _filters(samplings: Sequence[Sampling], vocab_size: int, xp: Any) -> Filters:
    ranks = [s.top_k if 0 < s.top_k < vocab_size else vocab_size for s in samplings]
    log_min_p = [math.log(s.min_p) if s.min_p > 0 else -math.inf for s in samplings]
    return Filters(
        top_p=xp.asarray(_column([s.top_p if s.top_p < 1 else math.inf for s in samplings])),
        log_min_p=xp.asarray(_column(log_min_p)),
        top_k=xp.asarray(np.array(ranks, dtype=np.int32)[:, None]),
        uses_top_p=any(s.top_p < 1 for s in samplings),
        uses_min_p=any(s.min_p > 0 for s in samplings),
        uses_top_k=any(rank < vocab_size for rank in ranks),
    )
