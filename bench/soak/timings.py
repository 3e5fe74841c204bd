"""How long rows outlive their clients, beside the steps that run meanwhile, from the trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from soak.book import at_share

# Models of the newest tickets; a request that was admitted longer ago than so many is over.
REMEMBERED = 4000


@attrs.define
class Timings:
    """In seconds, by model. The trace is a ring: on a busy server not all of it is seen.

    `quiet` holds the rows that left while no worker was made to suffer and no model changed.
    """

    steps: dict[str, list[float]] = attrs.field(factory=dict)
    freed: dict[str, list[float]] = attrs.field(factory=dict)
    quiet: dict[str, list[float]] = attrs.field(factory=dict)
    _seen_until: float = -1.0
    _model_of: dict[str, str] = attrs.field(factory=dict)
    _order: deque[str] = attrs.field(factory=deque)

    def take(self, events: Iterable[Mapping[str, Any]], disturbed: bool) -> None:
        """What the trace shows now; what was seen before is left out."""
        new = [event for event in events if event["at"] > self._seen_until]
        for event in new:
            match event["name"]:
                case "step":
                    fields = event["fields"]
                    self.steps.setdefault(fields["model"], []).append(fields["seconds"])
                case "request.admitted":
                    self._remember(event["ticket"], event["fields"]["model"])
                case "row.removed":
                    self._removed(event, disturbed)
        if new:
            self._seen_until = new[-1]["at"]

    def _remember(self, ticket: str, model: str) -> None:
        self._model_of[ticket] = model
        self._order.append(ticket)
        if len(self._order) > REMEMBERED:
            del self._model_of[self._order.popleft()]

    def _removed(self, event: Mapping[str, Any], disturbed: bool) -> None:
        if event["fields"]["reason"] != "disconnect":
            return
        # One that was never admitted had no row.
        model = self._model_of.get(event["ticket"], "no row yet")
        for kept in (self.freed, *(() if disturbed else (self.quiet,))):
            kept.setdefault(model, []).append(event["fields"]["seconds"])

    def report(self) -> dict[str, Any]:
        return {
            "steps": {model: shares(values) for model, values in self.steps.items()},
            "row freed after its client left": {
                "all": {model: shares(values) for model, values in self.freed.items()},
                "while nothing else happened": {
                    model: shares(values) for model, values in self.quiet.items()
                },
            },
        }


def shares(seconds: list[float]) -> dict[str, float]:
    return {
        "count": len(seconds),
        "p50_ms": round(at_share(seconds, 0.5) * 1000, 2),
        "p99_ms": round(at_share(seconds, 0.99) * 1000, 2),
        "worst_ms": round(max(seconds, default=0.0) * 1000, 2),
    }
