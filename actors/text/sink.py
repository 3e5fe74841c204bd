"""What a grammar has found, gathered into events: a run of one kind is one event."""

from __future__ import annotations

from headrace.actors.text.events import (
    AnswerEvent,
    CallArguments,
    CallEnded,
    CallStarted,
    Reasoning,
    Text,
)


class AnswerSink:
    """Collects the events of one answer.

    Whitespace before a call or a hidden block, and marks before a section of calls, are markup if
    a call or block does follow, and text if text does. So whitespace that begins the answer or
    follows a call waits, and so does a mark wherever it stands.
    """

    __slots__ = ("_events", "_held", "_held_at", "_lines", "calls", "fresh", "spans")

    def __init__(self) -> None:
        self._events: list[AnswerEvent] = []
        self._held = ""
        self._held_at = 0
        # Line breaks at the end of the reasoning so far; before its closing mark they are markup.
        self._lines = ""
        # Where hidden blocks with their marks begin and end in the decoded text.
        self.spans: list[tuple[int, int | None]] = []
        # Calls begun so far.
        self.calls = 0
        # No text has been shown since the answer's beginning or the last call.
        self.fresh = True

    def drain(self) -> list[AnswerEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def text(self, text: str, at: int) -> None:
        if (self.fresh or self._held) and text.isspace():
            self._hold(text, at)
            return
        if self._held:
            text, at = self._held + text, self._held_at
            self._release()
        self.fresh = False
        self._show(text, at)

    def section(self, text: str, at: int) -> None:
        """A mark before calls."""
        self._hold(text, at)

    def closer(self, text: str, at: int) -> None:
        """A mark behind a call, if there was one."""
        if self.fresh and self.calls:
            self._release()
        else:
            self.text(text, at)

    def open_block(self, at: int) -> None:
        self._release()
        self.spans.append((at, None))

    def reasoning(self, text: str) -> None:
        text = self._lines + text
        body = text.rstrip("\n")
        self._lines = text[len(body) :]
        if not body:
            return
        last = self._events[-1] if self._events else None
        if isinstance(last, Reasoning):
            self._events[-1] = Reasoning(last.text + body)
        else:
            self._events.append(Reasoning(body))

    def close_block(self, at: int) -> None:
        self._lines = ""
        self.spans[-1] = (self.spans[-1][0], at)

    def start_call(self, name: str) -> None:
        self._release()
        self._events.append(CallStarted(self.calls, name))
        self.calls += 1
        self.fresh = True

    def arguments(self, text: str) -> None:
        last = self._events[-1] if self._events else None
        if isinstance(last, CallArguments):
            self._events[-1] = CallArguments(last.index, last.text + text)
        elif text:
            self._events.append(CallArguments(self.calls - 1, text))

    def end_call(self) -> None:
        self._events.append(CallEnded(self.calls - 1))

    def finish(self, *, cut: bool) -> None:
        """The answer has ended. What waited for its continuation is text, except after a call;
        where the answer was cut it may be markup, and is left out."""
        if not cut and self._lines:
            self._events.append(Reasoning(self._lines))
        if not cut and self._held and not (self.fresh and self.calls):
            self._show(self._held, self._held_at)
        self._lines = ""
        self._release()

    def _hold(self, text: str, at: int) -> None:
        if not self._held:
            self._held_at = at
        self._held += text

    def _release(self) -> None:
        self._held = ""

    def _show(self, text: str, at: int) -> None:
        last = self._events[-1] if self._events else None
        if isinstance(last, Text) and last.at + len(last.text) == at:
            self._events[-1] = Text(last.text + text, last.at)
        else:
            self._events.append(Text(text, at))
