"""One answer's text, piece by piece, into events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.actors.text.calls import Answer, arguments_schema
from headrace.actors.text.events import AnswerEvent
from headrace.actors.text.markup import Markup
from headrace.actors.text.reader import Reader
from headrace.actors.text.reasoning import Start
from headrace.actors.text.sink import AnswerSink


class AnswerParser:
    """Takes an answer apart as it is written. The events, joined, are the same for every way to
    cut the text into pieces.

    `tools` gives each tool's JSON schema of arguments; without any, nothing is read as a call.
    """

    __slots__ = ("_reader", "_sink", "_steps")

    def __init__(self, markup: Markup, tools: Mapping[str, Any], start: Start) -> None:
        self._reader = Reader()
        self._sink = AnswerSink()
        shapes = {name: arguments_schema(schema) for name, schema in tools.items()}
        self._steps = markup.read(Answer(self._reader, self._sink, shapes), start)
        next(self._steps, None)

    @property
    def blocks(self) -> list[tuple[int, int | None]]:
        """Where hidden blocks, marks included, begin and end in the text; None while open."""
        return self._sink.spans

    def feed(self, text: str) -> list[AnswerEvent]:
        """The events that are certain after this piece."""
        self._reader.feed(text)
        next(self._steps, None)
        return self._sink.drain()

    def finish(self, *, cut: bool) -> list[AnswerEvent]:
        """The last events. `cut`: the answer was ended from outside, so what may be the beginning
        of markup is left out instead of being taken for text."""
        self._reader.end(cut=cut)
        next(self._steps, None)
        self._sink.finish(cut=cut)
        return self._sink.drain()
