"""The masks of a whole batch: which tokens its rows may sample, by their grammars.

Rows with and without a grammar share one buffer of bits, a row each, which becomes booleans once a
step. That is several times cheaper than testing bits on the device, and needs no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.actors.engine.constrain import RowMatcher
from headrace.runtime.ports import RowMask

# What an allowed token has at least. Where a bias or a missing minimum length takes out all that
# the grammar allows, the grammar wins: a row with no token left would say anything.
FLOOR = -1e30


class MaskBuffer:
    """For a fixed list of rows, in batch order; None stands for a row without a grammar. The
    masks are those that a `GrammarCompiler` made for this vocabulary."""

    def __init__(self, masks: Sequence[RowMask | None], vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._held = [(row, mask) for row, mask in enumerate(masks) if isinstance(mask, RowMatcher)]
        words = max((matcher.words for _, matcher in self._held), default=0)
        self._bits = np.full((len(masks), words), -1, dtype=np.int32)
        self._rows = np.array([row for row, _ in self._held], dtype=np.int64)

    @property
    def needed(self) -> bool:
        """Whether any row has a grammar."""
        return bool(self._held)

    def fill(self) -> None:
        """Work out what each row may say next, after all that it has sampled was consumed. Rows
        whose matcher is `broken` afterwards are to be given up."""
        for row, matcher in self._held:
            matcher.fill(self._bits[row])

    def apply(self, xp: Any, logits: Any) -> Any:
        """Logits (B, V), float32, with -inf for what the rows may not sample; `xp` is numpy or
        mlx.core. The argument is left as it is."""
        if not self.needed:
            return logits
        if xp is np:
            return self._applied_on_host(logits)
        refused = xp.array(self._refused(self._bits))
        return xp.where(refused, -xp.inf, xp.maximum(logits, FLOOR))

    def _applied_on_host(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Row by row in one copy: going through memory costs more here than choosing does."""
        masked = np.array(logits)
        refused = self._refused(self._bits[self._rows])
        for row, refused_of_row in zip(self._rows, refused, strict=True):
            np.maximum(masked[row], np.float32(FLOOR), out=masked[row])
            np.putmask(masked[row], refused_of_row, np.float32(-np.inf))
        return masked

    def _refused(self, bits: NDArray[np.int32]) -> NDArray[np.bool_]:
        flags = np.unpackbits((~bits).view(np.uint8), axis=1, bitorder="little")
        return flags[:, : self._vocab_size].view(np.bool_)
