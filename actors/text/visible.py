"""Stop strings among an answer's events: only its visible text is searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.actors.text.events import AnswerEvent, Text
from headrace.actors.text.stops import StopMatcher


class StopFilter:
    """Lets events through up to the stop string that is complete first. A stop never reaches
    across anything that is not text."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._matcher = StopMatcher(stops)
        # Where text must go on for what is held to go on.
        self._next = 0

    @property
    def matched(self) -> str | None:
        return self._matcher.matched

    def feed(self, events: Iterable[AnswerEvent]) -> Iterator[AnswerEvent]:
        for event in events:
            if self.matched is not None:
                return
            if not isinstance(event, Text) or event.at != self._next:
                yield from self.flush()
            if isinstance(event, Text):
                yield from self._feed_text(event)
            else:
                yield event

    def flush(self) -> Iterator[Text]:
        at = self._next - self._matcher.held
        if held := self._matcher.flush():
            yield Text(held, at)

    def _feed_text(self, event: Text) -> Iterator[Text]:
        at = event.at - self._matcher.held
        self._next = event.at + len(event.text)
        if shown := self._matcher.feed(event.text):
            yield Text(shown, at)
