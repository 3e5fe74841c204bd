"""The choice points of one run, as explicit objects.

Whatever is left open in a run, by the scheduler or by the scenario, is drawn here as an index
and kept. A run is therefore described by a list of small numbers: it can be played again, cut
short, and made quieter number by number, because 0 is always the plainest choice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Draws by seed, at most `keep` times; or plays `prefix`. From then on it takes the plainest
    choice."""

    def __init__(
        self, seed: int | None = None, *, prefix: Sequence[int] = (), keep: int | None = None
    ) -> None:
        self.seed = seed
        self.keep = keep
        # Index drawn at each choice point so far.
        self.taken: list[int] = []
        self._prefix = tuple(prefix)
        self._random = random.Random(seed).random if seed is not None else None

    def below(self, count: int) -> int:
        """An index in [0, count). With one option there is no choice point."""
        if count < 2:
            return 0
        at = len(self.taken)
        if at < len(self._prefix):
            index = min(self._prefix[at], count - 1)
        else:
            plain = self._random is None or (self.keep is not None and at >= self.keep)
            index = 0 if plain or self._random is None else int(self._random() * count)
        self.taken.append(index)
        return index

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the plainest."""
        return options[self.below(len(options))]

    def chance(self, one_in: int = 2) -> bool:
        """True once in so many times; the plainest is False."""
        return self.below(one_in) == one_in - 1

    def between(self, least: int, most: int) -> int:
        """A whole number in [least, most]; the plainest is the least."""
        return least + self.below(most - least + 1)

    def seconds(self, most: float, *, steps: int = 1000) -> float:
        """A duration in [0, most), in so many steps; the plainest is 0."""
        return self.below(steps) * most / steps

    def order(self, items: list[T]) -> None:
        """Put the items in any order, in place; the plainest is the one they have."""
        for at in range(len(items) - 1):
            other = at + self.below(len(items) - at)
            items[at], items[other] = items[other], items[at]

    def __repr__(self) -> str:
        source = "replayed" if self.seed is None else f"seed {self.seed}"
        return f"<Choices {source} | {len(self.taken)} taken>"
