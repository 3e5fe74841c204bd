"""A run of events that read a model, put together: what plain answers without text are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.answer import warnings_of
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Accepted, Event, Failed, Finished, Reading, Usage
from headrace.runtime.errors import RequestError
from headrace.runtime.readings import Decided, Embedded


@attrs.frozen
class Readings:
    """A run that ended well. `warnings` is the member of the answer, empty without any."""

    model: str
    readings: tuple[Reading, ...]
    usage: Usage
    warnings: dict[str, Any]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Readings:
        """Raises `RequestError` if the run ended with a failure."""
        listed = list(events)
        last = listed[-1] if listed else None
        if isinstance(last, Failed):
            raise RequestError.of(last.error)
        accepted = next((event for event in listed if isinstance(event, Accepted)), None)
        if accepted is None or not isinstance(last, Finished):
            raise ValueError("a run of events needs a beginning and an end")
        readings = tuple(event for event in listed if isinstance(event, Embedded | Decided))
        return cls(accepted.model, readings, last.usage, warning_member(warnings_of(listed)))

    def vectors(self) -> list[bytes]:
        """In the order of the inputs, whatever order they were computed in."""
        found = {
            event.index: event.vector for event in self.readings if isinstance(event, Embedded)
        }
        return [found[index] for index in range(len(found))]

    def probabilities(self) -> list[tuple[float, ...]]:
        """In the order of the questions."""
        found = {e.question: e.probabilities for e in self.readings if isinstance(e, Decided)}
        return [found[question] for question in range(len(found))]
