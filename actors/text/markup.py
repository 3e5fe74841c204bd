"""What a model's answers are made of, and the grammar that takes one apart."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import attrs
import regex

from headrace.actors.text.calls import NEVER, Answer, CallFormat, Pattern
from headrace.actors.text.formats import INNER_MARKS
from headrace.actors.text.reader import Steps
from headrace.actors.text.reasoning import ReasoningMarks, Start, read_block


class Markup(Protocol):
    """The grammar of one model's answers."""

    @property
    def closing(self) -> str:
        """What ends a hidden block from outside and leads on to text; "" without such blocks."""

    @property
    def ending(self) -> str:
        """What ends it and leads on to nothing yet: for an answer that is held to a grammar, which
        says what follows."""

    def shows(self, token: str) -> bool:
        """Whether this special token is part of the grammar, so that its text must be read."""

    def start(self, prompt: str, begun: str = "") -> Start:
        """The state that a rendered prompt leaves. `begun` is the part of the assistant's own
        turn that the prompt ends with. A caller whose request wants no thinking uses "after"."""

    def read(self, answer: Answer, start: Start) -> Steps[None]:
        """Take the answer to its end, telling the sink what it holds."""


@attrs.frozen
class TaggedMarkup:
    """Perhaps a block of reasoning, then text and calls in any order."""

    reasoning: ReasoningMarks | None = None
    calls: CallFormat | None = None

    @property
    def closing(self) -> str:
        return "" if self.reasoning is None else f"\n{self.reasoning.close}\n\n"

    @property
    def ending(self) -> str:
        return self.closing

    def shows(self, token: str) -> bool:
        marks = list[str]()
        if self.reasoning is not None:
            marks += (self.reasoning.open, self.reasoning.close, *self.reasoning.ended_by)
        if self.calls is not None:
            marks += (*self.calls.openers, *self.calls.sections, *self.calls.closers, *INNER_MARKS)
        return any(token in mark for mark in marks)

    def start(self, prompt: str, begun: str = "") -> Start:
        return "after" if self.reasoning is None else self.reasoning.start(prompt, begun)

    def read(self, answer: Answer, start: Start) -> Steps[None]:
        if self.reasoning is not None and start == "inside":
            answer.sink.open_block(0)
            yield from read_block(answer, self.reasoning.closing)
        calls = self.calls if answer.tools else None
        if self.reasoning is not None and start == "before":
            pattern = _marks(calls, self.reasoning)
            if (yield from _read_content(answer, calls, pattern)):
                yield from read_block(answer, self.reasoning.closing)
        yield from _read_content(answer, calls, _marks(calls, None))


def _marks(calls: CallFormat | None, reasoning: ReasoningMarks | None) -> Pattern:
    """Matches what may not be text: group `think`, `open`, `section` or `close`."""
    return _pattern(
        (reasoning.open,) if reasoning else (),
        calls.openers if calls else (),
        calls.sections if calls else (),
        calls.closers if calls else (),
    )


@lru_cache(maxsize=64)  # each answer of a model asks for the same
def _pattern(
    think: tuple[str, ...],
    opening: tuple[str, ...],
    section: tuple[str, ...],
    close: tuple[str, ...],
) -> Pattern:
    groups = {"think": think, "open": opening, "section": section, "close": close}
    patterns = [
        f"(?P<{name}>{'|'.join(map(regex.escape, texts))})"
        for name, texts in groups.items()
        if texts
    ]
    return regex.compile("|".join(patterns)) if patterns else NEVER


def _read_content(answer: Answer, calls: CallFormat | None, pattern: Pattern) -> Steps[bool]:
    """Text and calls; True where a block opens, False at the end."""
    reader, sink = answer.reader, answer.sink
    while not reader.over:
        if calls is not None and calls.bare and (yield from _at_bare_object(answer)):
            reader.mark()
            yield from _read_call(answer, calls)
            continue
        found = yield from reader.until(pattern, sink.text, mark=True)
        if found is None:
            break
        if found.lastgroup == "open" and calls is not None:
            yield from _read_call(answer, calls)
            continue
        text, at = reader.taken()
        if found.lastgroup == "think":
            sink.open_block(at)
            return True
        if found.lastgroup == "section":
            sink.section(text, at)
        else:
            sink.closer(text, at)
    return False


def _at_bare_object(answer: Answer) -> Steps[bool]:
    reader, sink = answer.reader, answer.sink
    if not sink.fresh:
        return False
    char = yield from reader.spaces(lambda text: sink.text(text, reader.position - len(text)))
    return char == "{"


def _read_call(answer: Answer, calls: CallFormat) -> Steps[None]:
    reader = answer.reader
    yield from calls.call(answer)
    if reader.marked:
        text, at = reader.taken()
        # What has ended before it could be told apart from a call is not shown.
        if not reader.over:
            answer.sink.text(text, at)
