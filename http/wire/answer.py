"""A whole run of events, put together again: what every protocol's plain answer is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

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
    ScoredToken,
    Warning_,
)
from headrace.runtime.errors import RequestError
from headrace.runtime.readings import Decided, Embedded

Kind: TypeAlias = Literal["text", "reasoning", "call"]

# Events of the request as a whole.
NOT_OF_A_CHOICE = (Accepted, Embedded, Decided, Finished, Failed)


@attrs.define
class Part:
    """A stretch of one kind. `name` and `call` are those of a call, `text` its arguments.

    A call that is not complete was cut by the answer's end.
    """

    kind: Kind
    name: str = ""
    call: int = 0
    complete: bool = False
    pieces: list[str] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@attrs.define
class ChoiceAnswer:
    """One answer: its parts in the order in which they were generated."""

    index: int
    ended: ChoiceEnded
    parts: list[Part] = attrs.field(factory=list)
    scored: list[ScoredToken] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        return self._joined("text")

    @property
    def reasoning(self) -> str:
        return self._joined("reasoning")

    @property
    def calls(self) -> Iterator[Part]:
        return (part for part in self.parts if part.kind == "call")

    def take(self, event: Event) -> None:
        match event:
            case Delta(text=text, scored=scored):
                self._say("text", text)
                self.scored += scored
            case ReasoningDelta(text=text):
                self._say("reasoning", text)
            case CallStarted(call, name):
                self.parts.append(Part("call", name, call))
            case CallArguments(call, text):
                self._call(call).pieces.append(text)
            case CallEnded(call):
                self._call(call).complete = True
            case ChoiceEnded():
                self.ended = event

    def _say(self, kind: Kind, text: str) -> None:
        if not text:
            return
        if not self.parts or self.parts[-1].kind != kind:
            self.parts.append(Part(kind))
        self.parts[-1].pieces.append(text)

    def _call(self, number: int) -> Part:
        return next(part for part in self.calls if part.call == number)

    def _joined(self, kind: Kind) -> str:
        return "".join(part.text for part in self.parts if part.kind == kind)


@attrs.frozen
class Answer:
    """A merged run that ended well. `warnings` are those of the whole run, each once."""

    accepted: Accepted
    choices: tuple[ChoiceAnswer, ...]
    finished: Finished
    warnings: tuple[Warning_, ...]

    @classmethod
    def of(cls, events: Iterable[Event], choices: int) -> Answer:
        """Collect a run of so many answers. Raises `RequestError` if it ended with a failure."""
        listed = list(events)
        accepted = next((event for event in listed if isinstance(event, Accepted)), None)
        last = listed[-1] if listed else None
        if isinstance(last, Failed):
            raise RequestError.of(last.error)
        if accepted is None or not isinstance(last, Finished):
            raise ValueError("a run of events needs a beginning and an end")
        answers = tuple(ChoiceAnswer(i, ChoiceEnded(last.reason, choice=i)) for i in range(choices))
        for event in listed:
            if not isinstance(event, NOT_OF_A_CHOICE):
                answers[event.choice].take(event)
        return cls(accepted, answers, last, warnings_of(listed))


def warnings_of(events: Iterable[Event]) -> tuple[Warning_, ...]:
    """What a run tells its client beside the answer, each warning once."""
    told: dict[Warning_, None] = {}
    for event in events:
        if isinstance(event, Accepted | ChoiceEnded | Finished):
            told |= dict.fromkeys(event.warnings)
    return tuple(told)
