"""The hidden block of an answer: where it begins and ends, and where the prompt left it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
import regex

from headrace.actors.text.calls import Answer, Pattern
from headrace.actors.text.reader import Steps

# Before the block, inside it (the template has opened it), or after it: then a mark is text.
Start: TypeAlias = Literal["before", "inside", "after"]


@attrs.frozen
class ReasoningMarks:
    """The texts around a block. Line breaks next to them belong to them."""

    open: str
    close: str
    # Marks that end the block by beginning something else.
    ended_by: tuple[str, ...] = ()
    # Tokens or parts of the template that a model with these marks has.
    evidence: tuple[str, ...] = attrs.field()

    @evidence.default
    def _own_marks(self) -> tuple[str, ...]:
        return (self.open, self.close)

    def start(self, prompt: str, begun: str = "") -> Start:
        """See `Markup.start`. A mark that does not end the prompt counts only in `begun`: a user
        may have written it."""
        opened = begun.rfind(self.open)
        closed = begun.rfind(self.close)
        if opened != closed:
            return "inside" if opened > closed else "after"
        end = prompt.rstrip()
        if end.endswith(self.open):
            return "inside"
        return "after" if begun or end.endswith(self.close) else "before"

    @property
    def opening(self) -> str:
        return regex.escape(self.open)

    @property
    def closing(self) -> Pattern:
        ends = "".join(f"|(?={regex.escape(mark)})" for mark in self.ended_by)
        return regex.compile(regex.escape(self.close) + ends)


THINK = ReasoningMarks("<think>", "</think>")
REASONING_MARKS = (
    THINK,
    ReasoningMarks("<longcat_think>", "</longcat_think>"),
    ReasoningMarks("<|think:start|>", "<|think:end|>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<seed:think>", "</seed:think>"),
    ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningMarks("<|channel>thought", "<channel|>", evidence=("<|channel>", "<channel|>")),
    ReasoningMarks("◁think▷", "◁/think▷"),
)


def read_block(answer: Answer, closing: Pattern) -> Steps[None]:
    """Take a block that has been opened, with the line breaks around its text."""
    reader, sink = answer.reader, answer.sink
    yield from _skip_lines(answer)
    found = yield from reader.until(closing, lambda text, _: sink.reasoning(text))
    if found is None:
        return
    sink.close_block(reader.position)
    yield from _skip_lines(answer)
    sink.close_block(reader.position)


def _skip_lines(answer: Answer) -> Steps[None]:
    while (yield from answer.reader.peek()) == "\n":
        answer.reader.skip()
