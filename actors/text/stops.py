"""Stop strings over a growing text, with exact hold-back (wire contract 3.4)."""

from __future__ import annotations

from collections.abc import Iterable


class _Pattern:
    """One stop string, followed by Knuth, Morris and Pratt's algorithm.

    The border table grows with the text matched, never with the stop's own length, so a huge
    stop string costs nothing before the text comes near it.
    """

    __slots__ = ("_borders", "held", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        # Characters at the text's end that begin this stop; always the longest such suffix.
        self.held = 0
        self._borders = [0]

    def advance(self, text: str) -> int:
        """Characters of `text` after which the stop is first complete, 0 if it is not."""
        stop, borders, held = self.stop, self._borders, self.held
        at, end = 0, len(text)
        while at < end:
            if held == 0:
                at = text.find(stop[0], at)
                if at < 0:
                    break
            while held and stop[held] != text[at]:
                held = borders[held - 1]
            if stop[held] == text[at]:
                held += 1
                if held == len(stop):
                    return at + 1
                if held > len(borders):
                    self._extend_borders()
            at += 1
        self.held = held
        return 0

    def _extend_borders(self) -> None:
        stop, borders = self.stop, self._borders
        letter, border = stop[len(borders)], borders[-1]
        while border and stop[border] != letter:
            border = borders[border - 1]
        borders.append(border + (stop[border] == letter))


class StopMatcher:
    """Lets text through up to the first stop string, whatever the borders of its pieces.

    The stop that completes first wins, counted character by character; of several that complete
    at the same character, the longest. A suffix that could begin a stop is held back until more
    text decides. Empty stops are ignored. Time is linear in the text, times the number of stops.
    """

    __slots__ = ("_held", "_patterns", "matched")

    def __init__(self, stops: Iterable[str]) -> None:
        self._patterns = [_Pattern(stop) for stop in dict.fromkeys(stops) if stop]
        self._held = ""
        # The stop that ended the text; nothing is shown once it is set.
        self.matched: str | None = None

    @property
    def held(self) -> int:
        """Characters that wait for more text."""
        return len(self._held)

    def feed(self, text: str) -> str:
        """Take the next piece and give what may be shown of all text so far."""
        if self.matched is not None:
            return ""
        first, winner, held = 0, "", 0
        for pattern in self._patterns:
            end = pattern.advance(text)
            if end and (not first or (end, -len(pattern.stop)) < (first, -len(winner))):
                first, winner = end, pattern.stop
            held = max(held, pattern.held)
        if first:
            return self._end_with(winner, self._held + text[:first])
        if not (held or self._held):
            return text
        return self._hold(self._held + text, held)

    def flush(self) -> str:
        """Give what is still held: the text has ended, and any more would be another text."""
        held, self._held = self._held, ""
        for pattern in self._patterns:
            pattern.held = 0
        return held

    def _end_with(self, stop: str, text: str) -> str:
        self.matched, self._held = stop, ""
        return text[: -len(stop)]

    def _hold(self, text: str, held: int) -> str:
        shown = len(text) - held
        self._held = text[shown:]
        return text[:shown]
