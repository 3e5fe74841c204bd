"""What is known of every request of a soak, and what went against the promises."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import attrs
import trio

# Of the same kind; the rest is counted only.
KEPT_VIOLATIONS = 200


@attrs.frozen
class Violation:
    """`at` is in seconds since the start of the soak."""

    at: float
    what: str


@attrs.define
class Book:
    """Requests by the ids that their clients gave them, on the run's clock."""

    began: float = attrs.field(factory=trio.current_time)
    # Requests that wait for their answer, and those whose clients have left, by id.
    live: dict[str, float] = attrs.field(factory=dict)
    left: dict[str, float] = attrs.field(factory=dict)
    # (way of asking, outcome) -> requests.
    outcomes: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    # What the server and its workers were made to suffer.
    deeds: Counter[str] = attrs.field(factory=Counter)
    ways: Counter[str] = attrs.field(factory=Counter)
    waits: list[float] = attrs.field(factory=list)
    violations: list[Violation] = attrs.field(factory=list)
    violations_total: int = 0

    @property
    def seconds(self) -> float:
        return trio.current_time() - self.began

    @property
    def requests(self) -> int:
        return sum(self.outcomes.values())

    @property
    def dropped(self) -> int:
        return sum(self.ways.values())

    def begin(self, name: str) -> None:
        self.live[name] = trio.current_time()

    def leave(self, name: str, way: str) -> None:
        """The client is gone without its answer."""
        self.ways[way] += 1
        self.left[name] = trio.current_time()

    def end(self, name: str, ask: str, outcome: str) -> None:
        """The client is done; an outcome in words is a violation."""
        seconds = trio.current_time() - self.live.pop(name)
        if outcome == "ok":
            self.waits.append(seconds)
        if " " in outcome:
            self.violate(f"{name} ({ask}): {outcome}")
            outcome = "violation"
        self.outcomes[ask, outcome] += 1

    def violate(self, what: str) -> None:
        self.violations_total += 1
        if len(self.violations) < KEPT_VIOLATIONS:
            self.violations.append(Violation(round(self.seconds, 1), what))


def at_share(values: Sequence[float], share: float) -> float:
    """The value at this share of the ordered values (0.99: the 99th percentile)."""
    if not values:
        return math.nan
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
