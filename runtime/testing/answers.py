"""Reading an answer's events as a test wants to see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from headrace.actors.text.events import (
    AnswerEvent,
    CallArguments,
    CallEnded,
    CallStarted,
    Reasoning,
    Text,
)
from headrace.actors.text.markup import Markup
from headrace.actors.text.parser import AnswerParser
from headrace.actors.text.reasoning import Start


@attrs.frozen
class AnswerCall:
    """A call as a client puts it together."""

    name: str
    arguments: str
    complete: bool


@attrs.frozen
class WholeAnswer:
    """An answer as a client puts it together."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[AnswerCall, ...] = ()

    @classmethod
    def of(cls, events: Iterable[AnswerEvent]) -> WholeAnswer:
        content, reasoning, calls = "", "", list[AnswerCall]()
        for event in events:
            match event:
                case Text(text):
                    content += text
                case Reasoning(text):
                    reasoning += text
                case CallStarted(index, name):
                    assert index == len(calls)
                    calls.append(AnswerCall(name, "", complete=False))
                case CallArguments(index, text):
                    so_far = calls[index]
                    assert not so_far.complete
                    calls[index] = attrs.evolve(so_far, arguments=so_far.arguments + text)
                case CallEnded(index):
                    calls[index] = attrs.evolve(calls[index], complete=True)
        return cls(content, reasoning, tuple(calls))


def merged(events: Iterable[AnswerEvent]) -> list[AnswerEvent]:
    """The same events with adjacent pieces of one kind joined."""
    whole = list[AnswerEvent]()
    for event in events:
        last = whole[-1] if whole else None
        match last, event:
            case Reasoning(before), Reasoning(text):
                whole[-1] = Reasoning(before + text)
            case CallArguments(first, before), CallArguments(second, text) if first == second:
                whole[-1] = CallArguments(first, before + text)
            case Text(before, at), Text(text, next_at) if at + len(before) == next_at:
                whole[-1] = Text(before + text, at)
            case _:
                whole.append(event)
    return whole


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def parse(
    markup: Markup,
    tools: Mapping[str, Any],
    parts: Sequence[str],
    *,
    start: Start = "before",
    cut: bool = False,
) -> list[AnswerEvent]:
    """The merged events of an answer that comes in these parts."""
    parser = AnswerParser(markup, tools, start)
    events = [event for part in parts for event in parser.feed(part)]
    return merged([*events, *parser.finish(cut=cut)])
