"""One sequence on its way through the engine."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from headrace.actors.engine import kv
from headrace.runtime.ports import RowSpec, TokenScores


class Row:
    """How far a sequence has come: prompt tokens computed, tokens sampled, tokens given out.

    `sampled` runs ahead of `given` by one while a step is in flight on the device.
    """

    __slots__ = (
        "_history",
        "answer",
        "cache",
        "computed",
        "forced",
        "found",
        "gone",
        "hold",
        "last",
        "reused",
        "sampled",
        "scores",
        "spec",
        "stops",
    )

    def __init__(self, spec: RowSpec) -> None:
        self.spec = spec
        self.computed = 0
        # Tokens from the start that are kept elsewhere and may be copied, and what keeps them.
        self.found = 0
        self.hold: Any = None
        # Prompt tokens that were copied and not computed.
        self.reused = 0
        # Lengths at which a pass over the prompt has to end.
        self.stops: set[int] = set()
        self.sampled = spec.resumed
        # What it was given so far, or since it goes on.
        self.answer: list[int] = []
        # Input of the next forward pass whose token the host knows.
        self.last = spec.tokens[-1]
        # The row's own KV, one entry per layer, while it is in no batch.
        self.cache: list[Any] | None = None
        # What it is to say next in the place of what it draws.
        self.forced: deque[int] = deque(spec.forced)
        # Removed from outside; its batch drops it at the next step.
        self.gone = False
        # Of the token that was sampled last, for rows that ask.
        self.scores: TokenScores | None = None
        self._history: NDArray[np.int64] | None = None

    def siblings(self) -> list[Row]:
        """The further rows of its prompt, before their time."""
        specs = enumerate(self.spec.siblings, start=1)
        return [Row(_sibling(self.spec, number, choice)) for choice, number in specs]

    def begin_like(self, other: Row) -> None:
        """Stand where `other` stands, whose prompt is the same and complete."""
        self.computed = other.computed
        self.cache = None if other.cache is None else kv.forked(other.cache)

    @property
    def host_only(self) -> bool:
        """Whether each of its tokens needs the one before it on the host."""
        return self.spec.mask is not None or self.spec.logprobs is not None

    @property
    def broken(self) -> str | None:
        """Why its grammar can no longer be followed; what it says then means nothing."""
        return None if self.spec.mask is None else self.spec.mask.broken

    @property
    def anew(self) -> bool:
        """Whether all of its prompt has to be computed, as each token of it is looked at."""
        return self.spec.scores_prompt or self.spec.pooling is not None

    @property
    def prompt_length(self) -> int:
        """Prompt tokens to prefill; the last one is the first decode step's input."""
        return len(self.spec.tokens) - 1

    @property
    def reach(self) -> int:
        """Prompt tokens that are computed, by itself or by another."""
        return max(self.computed, self.found)

    @property
    def remaining(self) -> int:
        """Prompt tokens still to prefill."""
        return self.prompt_length - self.reach

    def next_tokens(self, count: int) -> tuple[int, ...]:
        """Of its prompt, the next to be computed."""
        return self.spec.tokens[self.computed : self.computed + count]

    @property
    def given(self) -> int:
        """Tokens of its answer so far."""
        return self.spec.resumed + len(self.answer)

    @property
    def satisfied(self) -> bool:
        """Whether it has been given every token that it may have; a row that may have none is
        after its prompt."""
        return 0 < self.spec.max_tokens <= self.given

    @property
    def exhausted(self) -> bool:
        """Whether every token it may have is sampled, so that it needs no more forward passes."""
        return self.sampled >= self.spec.max_tokens

    def take(self, token: int) -> None:
        """Note a sampled token that the host has read."""
        if self._history is not None:
            self._history[len(self.spec.tokens) + len(self.answer)] = token
        self.last = token
        self.answer.append(token)
        if self.spec.mask is not None:
            self.spec.mask.consume(token)

    def continued(self, *, complete: bool) -> RowSpec:
        """What goes on from here when its KV has been computed anew. The mask is the row's own,
        which has consumed what was said; `complete` tells whether the prompt was."""
        return attrs.evolve(
            self.spec,
            tokens=(*self.spec.tokens, *self.answer),
            resumed=self.given,
            forced=tuple(self.forced),
            siblings=() if complete else self.spec.siblings,
            scores_prompt=self.spec.scores_prompt and not complete,
        )

    def window(self, size: int) -> NDArray[np.int64]:
        """The last `size` tokens of prompt and answer, oldest first; 0 means all of them."""
        if self._history is None:
            self._history = self._recorded()
        end = len(self.spec.tokens) + len(self.answer)
        return self._history[max(0, end - size) if size else 0 : end]

    def _recorded(self) -> NDArray[np.int64]:
        """A buffer for the whole sequence. Rows without penalties never ask for it, so it is
        made on demand, which is before the first answer token."""
        prompt = self.spec.tokens
        history = np.zeros(len(prompt) + self.spec.max_tokens, dtype=np.int64)
        history[: len(prompt)] = prompt
        return history

    def __repr__(self) -> str:
        prompt = f"{self.computed}/{self.prompt_length}"
        return f"<Row {self.spec.row} prompt {prompt}, given {self.given}>"


def _sibling(spec: RowSpec, number: int, choice: int) -> RowSpec:
    mask = None if spec.mask is None else spec.mask.fork()
    return attrs.evolve(spec, row=number, choice=choice, siblings=(), mask=mask)
