"""The runs of one request's prompts as one run, in which nothing goes without saying.

Every answer has its end before the request's, and every complete call has arguments. The answers
of the second prompt follow those of the first in their numbers, and so on.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Usage,
    Warning_,
)
from headrace.runtime.readings import Decided, Embedded

OfChoice: TypeAlias = Delta | ReasoningDelta | CallStarted | CallArguments | CallEnded | ChoiceEnded

NO_ARGUMENTS = "{}"


class Merged:
    """Takes the events of `prompts` runs with `n` answers each, in any order between the runs.

    The first `Accepted` is the merged run's; a later one is passed on for its warnings. The first
    failure is the end of all.
    """

    def __init__(self, prompts: int, n: int) -> None:
        self._n = n
        self._running = prompts
        self._usage = Usage(0, 0)
        self._warnings: tuple[Warning_, ...] = ()
        # Answers that have ended, and calls that have no arguments yet, by choice and number.
        self._ended: set[int] = set()
        self._bare: set[tuple[int, int]] = set()
        self.over = False

    def feed(self, prompt: int, event: Event) -> list[Event]:
        """What an event of one prompt's run means for the whole; nothing after its end."""
        if self.over:
            return []
        first = prompt * self._n
        match event:
            # Nearly all events are of these two kinds, one for each token.
            case Delta() | ReasoningDelta():
                return [_moved(event, first)]
            case Accepted() | Embedded() | Decided():
                return [event]
            case Failed():
                self.over = True
                return [event]
            case Finished():
                return self._finish(first, event)
            case _:
                return self._one(_moved(event, first))

    def _one(self, event: OfChoice) -> list[Event]:
        match event:
            case CallStarted(call, _, choice):
                self._bare.add((choice, call))
            case CallArguments(call, text, _, choice) if text:
                self._bare.discard((choice, call))
            case CallEnded(call, choice) if (choice, call) in self._bare:
                return [CallArguments(call, NO_ARGUMENTS, 0, choice), event]
            case ChoiceEnded():
                self._ended.add(event.choice)
        return [event]

    def _finish(self, first: int, finished: Finished) -> list[Event]:
        open_ = [c for c in range(first, first + self._n) if c not in self._ended]
        stop, warnings = finished.matched_stop, finished.warnings
        events: list[Event] = [ChoiceEnded(finished.reason, stop, c, warnings) for c in open_]
        if not open_:
            self._warnings += warnings
        self._usage = _sum(self._usage, finished.usage)
        self._running -= 1
        if not self._running:
            self.over = True
            events.append(Finished(finished.reason, self._usage, stop, self._warnings))
        return events


def _moved(event: OfChoice, by: int) -> OfChoice:
    return attrs.evolve(event, choice=event.choice + by) if by else event


def _sum(a: Usage, b: Usage) -> Usage:
    return Usage(
        a.prompt_tokens + b.prompt_tokens,
        a.completion_tokens + b.completion_tokens,
        a.cached_tokens + b.cached_tokens,
        a.reasoning_tokens + b.reasoning_tokens,
    )
