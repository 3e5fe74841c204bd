"""One observer for what happens in a runtime: a bounded ring of named events.

Actors emit an event at each message that changes something. Tests assert on the ring,
`/debug/trace` shows it, and metrics listen. With one seed two runs give the same trace, so
fields hold names and numbers only: no text, no object ids, no wall time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import trio

Listener: TypeAlias = Callable[["TraceEvent"], None]


@attrs.frozen
class TraceEvent:
    """`at` is in seconds on the run's clock; `ticket` is empty where no request is concerned."""

    at: float
    name: str
    ticket: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        fields = " ".join(f"{key}={value}" for key, value in self.fields.items())
        return f"{self.at:.6f} {self.name} {self.ticket} {fields}".rstrip()


class Trace:
    """Keeps the last `capacity` events; older ones fall off and `dropped` counts them."""

    def __init__(self, capacity: int = 4096) -> None:
        self._ring: deque[TraceEvent] = deque(maxlen=capacity)
        self._listeners: list[Listener] = []
        self.dropped = 0

    def listen(self, listener: Listener) -> None:
        """Call `listener` at each event, in the emitting task; it must not raise or wait."""
        self._listeners.append(listener)

    def emit(self, name: str, ticket: str = "", **fields: Any) -> None:
        event = TraceEvent(trio.current_time(), name, ticket, fields)
        if len(self._ring) == self._ring.maxlen:
            self.dropped += 1
        self._ring.append(event)
        for listener in self._listeners:
            listener(event)

    def events(self, name: str | None = None, ticket: str | None = None) -> list[TraceEvent]:
        """The events still held, oldest first, narrowed by name and by ticket."""
        return [
            event
            for event in self._ring
            if (name is None or event.name == name) and (ticket is None or event.ticket == ticket)
        ]

    def __repr__(self) -> str:
        return f"<Trace {len(self._ring)} events, {self.dropped} dropped>"
