"""One sequence on its way through the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.runtime.ports import RowSpec


class Row:
    """How far a sequence has come: prompt tokens computed, tokens sampled, tokens given out.

    `sampled` runs ahead of `given` by one while a step is in flight on the device.
    """

    __slots__ = ("_history", "cache", "computed", "given", "gone", "last", "sampled", "spec")

    def __init__(self, spec: RowSpec) -> None:
        self.spec = spec
        self.computed = 0
        self.sampled = 0
        self.given = 0
        # Input of the next forward pass whose token the host knows.
        self.last = spec.tokens[-1]
        # The row's own KV, one entry per layer, while it is in no batch.
        self.cache: list[Any] | None = None
        # Removed from outside; its batch drops it at the next step.
        self.gone = False
        self._history: NDArray[np.int64] | None = None

    @property
    def remaining(self) -> int:
        """Prompt tokens still to prefill; the last one is the first decode step's input."""
        return len(self.spec.tokens) - 1 - self.computed

    @property
    def exhausted(self) -> bool:
        """Whether every token it may have is sampled, so that it needs no more forward passes."""
        return self.sampled >= self.spec.max_tokens

    def take(self, token: int) -> None:
        """Note a sampled token that the host has read."""
        if self._history is not None:
            self._history[len(self.spec.tokens) + self.given] = token
        self.last = token
        self.given += 1

    def window(self, size: int) -> NDArray[np.int64]:
        """The last `size` tokens of prompt and answer, oldest first; 0 means all of them."""
        if self._history is None:
            self._history = self._recorded()
        end = len(self.spec.tokens) + self.given
        return self._history[max(0, end - size) if size else 0 : end]

    def _recorded(self) -> NDArray[np.int64]:
        """A buffer for the whole sequence. Rows without penalties never ask for it, so it is
        made on demand, which is before the first answer token."""
        prompt = self.spec.tokens
        history = np.zeros(len(prompt) + self.spec.max_tokens, dtype=np.int64)
        history[: len(prompt)] = prompt
        return history

    def __repr__(self) -> str:
        prompt = len(self.spec.tokens) - 1
        return f"<Row {self.spec.row} prompt {self.computed}/{prompt}, given {self.given}>"
