"""What tool-call formats have in common: the answer being parsed, and arguments in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import attrs
import regex

from headrace.actors.text.json_value import JsonReader
from headrace.actors.text.reader import Reader, Steps
from headrace.actors.text.shape import Shape
from headrace.actors.text.sink import AnswerSink

Pattern: TypeAlias = regex.Pattern[str]

NEVER = regex.compile(r"(?!)")
NULL = regex.compile(r"null(?=[^\w])")
# What a model may leave behind a call's JSON: brackets too many, separators, a fence.
LEFT_OVER = " \t\r\n}],;`"


@attrs.frozen
class Answer:
    """One answer while it is parsed. `tools` gives the shape of each tool's arguments."""

    reader: Reader
    sink: AnswerSink
    tools: Mapping[str, Shape]

    def start_call(self, name: str) -> Shape | None:
        """Begin the call, unless there is no such tool: then what was taken becomes text."""
        shape = self.tools.get(name)
        if shape is not None:
            self.reader.forget()
            self.sink.start_call(name)
        return shape


class CallFormat(Protocol):
    """How one model family writes its calls."""

    @property
    def openers(self) -> tuple[str, ...]:
        """Texts that begin a call. None is part of another."""

    @property
    def sections(self) -> tuple[str, ...]:
        """Texts that may stand before an opener; text if no call follows."""

    @property
    def closers(self) -> tuple[str, ...]:
        """Texts that may stand behind a call; text anywhere else."""

    @property
    def bare(self) -> bool:
        """Whether a call may begin with a bare `{` where no text has been shown yet."""

    def call(self, answer: Answer) -> Steps[None]:
        """Take a call, or several, after an opener. If the reader's mark is still set then, there
        was none and what was taken is text, or has ended too early to be a call."""


def arguments_schema(parameters: Any) -> Shape:
    """The shape of a tool's arguments: an object, also where its schema does not say so."""
    return Shape.of({"type": "object", **(parameters if isinstance(parameters, dict) else {})})


def ignore(text: str, at: int = 0) -> None:
    """Markup that is not shown."""


def read_arguments(
    answer: Answer,
    shape: Shape,
    close: Pattern,
    *,
    values: type[JsonReader] = JsonReader,
    wrapped: bool = False,
) -> Steps[bool]:
    """Pass on the arguments of the call begun, and end it. False if they were not read to their
    end: then they are raw from there up to `close`, a look-ahead. `wrapped`: they stand in another
    object, whose own bracket does not belong to them."""
    reader, sink = answer.reader, answer.sink
    yield from reader.spaces(ignore)
    if (yield from reader.take(NULL)) is not None:
        complete = True
        sink.arguments("{}")
    else:
        complete = yield from values(reader, sink.arguments).value(shape)
    if complete:
        sink.end_call()
    elif not (reader.over and reader.cut):
        yield from _pass_raw(answer, close, wrapped=wrapped)
    return complete


def _pass_raw(answer: Answer, close: Pattern, *, wrapped: bool) -> Steps[None]:
    raw = list[str]()
    found = yield from answer.reader.until(close, lambda text, _: raw.append(text))
    text = "".join(raw).rstrip()
    answer.sink.arguments(text.removesuffix("}").rstrip() if wrapped else text)
    if found is not None or not answer.reader.cut:
        answer.sink.end_call()


def skip_left_over(reader: Reader) -> Steps[None]:
    """What stands between a call and its closing mark, or the next call."""
    while (char := (yield from reader.peek())) and char in LEFT_OVER:
        reader.skip()
