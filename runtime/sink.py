"""What one client has not read yet.

`put` never waits: text that piles up is merged into one event, so that a slow reader costs memory
bounded by its own cap on tokens, and nobody else's time. There is one consumer.
"""

from __future__ import annotations

from collections import deque

import attrs
import trio

from headrace.runtime.contracts import (
    CallArguments,
    Delta,
    End,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
)

PIECES = (Delta, ReasoningDelta, CallArguments)


@attrs.frozen
class SinkStatistics:
    """What waits to be read."""

    events: int
    characters: int
    ended: bool


class StreamSink:
    """Events of one stream in order: deltas merge, the first end wins and nothing follows it."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._arrived = trio.Event()
        # Run-clock second from which something has waited unread.
        self.unread_since: float | None = None
        self.end: End | None = None

    def put(self, event: Event) -> None:
        """Add an event; after the end it is ignored."""
        if self.end is not None:
            return
        if isinstance(event, (Finished, Failed)):
            self.end = event
        last = self._events[-1] if self._events else None
        merged = None if last is None else joined(last, event)
        if merged is None:
            self._events.append(event)
        else:
            self._events[-1] = merged
        if self.unread_since is None:
            self.unread_since = trio.current_time()
        self._arrived.set()

    async def receive(self) -> Event:
        """The next event, waiting for one; `trio.EndOfChannel` after the end was read.

        A wait that is cut short by cancellation loses nothing: an event is taken only in the
        step that returns it.
        """
        await trio.lowlevel.checkpoint()
        while not self._events:
            if self.end is not None:
                raise trio.EndOfChannel
            self._arrived = trio.Event()
            await self._arrived.wait()
        event = self._events.popleft()
        self.unread_since = trio.current_time() if self._events else None
        return event

    def statistics(self) -> SinkStatistics:
        characters = sum(len(event.text) for event in self._events if isinstance(event, PIECES))
        return SinkStatistics(len(self._events), characters, self.end is not None)

    def __repr__(self) -> str:
        state = self.statistics()
        return f"<StreamSink {state.events} events, {'ended' if state.ended else 'open'}>"


def joined(last: Event, event: Event) -> Event | None:
    """One event for two pieces of one kind, one choice and one call; None where they are not."""
    match last, event:
        case Delta(), Delta() if last.choice == event.choice:
            scored = (*last.scored, *event.scored)
            tokens = last.tokens + event.tokens
            return Delta(last.text + event.text, tokens, last.choice, scored)
        case ReasoningDelta(), ReasoningDelta() if last.choice == event.choice:
            tokens = last.tokens + event.tokens
            return ReasoningDelta(last.text + event.text, tokens, last.choice)
        case CallArguments(), CallArguments() if (last.choice, last.call) == (
            event.choice,
            event.call,
        ):
            tokens = last.tokens + event.tokens
            return CallArguments(last.call, last.text + event.text, tokens, last.choice)
    return None
