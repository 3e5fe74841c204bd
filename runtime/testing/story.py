"""Assertions on a trace that read like what happened, and tell where it went another way.

A line names an event, and as much of it as matters: `"row.removed t1 reason=disconnect"` is a
`row.removed` of ticket `t1` with that field; `"step kind=decode"` is a step of any model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.runtime.trace import Trace, TraceEvent

# Events shown around the place where a story goes wrong.
SHOWN = 12


class Story:
    """The events of one run, oldest first."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self.events = tuple(events)

    @classmethod
    def of(cls, trace: Trace, ticket: str | None = None) -> Story:
        """All that a trace still holds, or what it holds of one ticket."""
        return cls(trace.events(ticket=ticket))

    def tells(self, *lines: str) -> None:
        """These happened in this order, with anything between them."""
        at = 0
        for number, line in enumerate(lines):
            found = next((i for i in range(at, len(self.events)) if self._is(i, line)), None)
            if found is None:
                raise AssertionError(self._missing(lines, number, at))
            at = found + 1

    def never(self, *lines: str) -> None:
        """None of these happened."""
        for line in lines:
            for i in range(len(self.events)):
                assert not self._is(i, line), f"{line!r} happened:\n{self._shown(i)}"

    def count(self, line: str) -> int:
        return sum(self._is(i, line) for i in range(len(self.events)))

    def _is(self, i: int, line: str) -> bool:
        return matches(self.events[i], line)

    def _missing(self, lines: Sequence[str], number: int, at: int) -> str:
        before = f"after {lines[number - 1]!r}" if number else "at all"
        return f"{lines[number]!r} did not happen {before}; what did:\n{self._shown(at)}"

    def _shown(self, at: int) -> str:
        first = max(0, at - 2)
        return "\n".join(f"  {event}" for event in self.events[first : first + SHOWN])

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))


def matches(event: TraceEvent, line: str) -> bool:
    """Whether a line is true of an event."""
    name, *details = line.split()
    if event.name != name:
        return False
    for detail in details:
        field, is_field, value = detail.partition("=")
        if not is_field and event.ticket != detail:
            return False
        if is_field and (field not in event.fields or str(event.fields[field]) != value):
            return False
    return True
