"""Calls that are one JSON object each: `{"name": …, "arguments": {…}}`, members in any order."""

from __future__ import annotations

import attrs
import regex

from headrace.actors.text.calls import (
    LEFT_OVER,
    NEVER,
    Answer,
    Pattern,
    ignore,
    read_arguments,
    skip_left_over,
)
from headrace.actors.text.json_value import JsonReader, read_text, unquote
from headrace.actors.text.reader import Steps
from headrace.actors.text.shape import ANY, Shape

STRING = regex.compile(r'"(?:[^"\\\x00-\x1f]|\\.){0,256}"')
LIST = regex.compile(r"\[(?=\s{0,64}[{\]])")
COLON = regex.compile(":")
NEXT = regex.compile("[,}]")
NAMES = frozenset({"name", "function"})
ARGUMENTS = frozenset({"arguments", "parameters"})
# A bare object that begins with another member is an answer in JSON.
FIRST = NAMES | {"type", "id"}


@attrs.frozen
class JsonCalls:
    """An opener, then the object. `array`: the objects may stand in a list."""

    openers: tuple[str, ...]
    sections: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    close: Pattern = NEVER
    bare: bool = False
    array: bool = False

    def call(self, answer: Answer) -> Steps[None]:
        start = yield from answer.reader.spaces(ignore)
        if self.array and start == "[":
            yield from self._list(answer)
        elif start == "{":
            yield from _ObjectCall(self, answer).read()
            yield from skip_left_over(answer.reader)

    def _list(self, answer: Answer) -> Steps[None]:
        reader, first = answer.reader, answer.sink.calls
        if (yield from reader.take(LIST)) is None:
            return
        while (yield from reader.spaces(ignore)) == "{":
            calls = answer.sink.calls
            yield from _ObjectCall(self, answer).read()
            if answer.sink.calls == calls:
                return
            yield from skip_left_over(reader)
            # The next object is text by itself if it is no call.
            reader.mark()
        if answer.sink.calls > first:
            reader.forget()


class _ObjectCall:
    """One object being read. Its arguments flow once its name is known."""

    def __init__(self, form: JsonCalls, answer: Answer) -> None:
        self._form = form
        self._answer = answer
        self._reader = answer.reader
        self._shape: Shape | None = None
        # Arguments that came before the name.
        self._early: str | None = None
        self._told = False

    def read(self) -> Steps[None]:
        self._reader.skip()
        complete = yield from self._members()
        if self._shape is None or (self._reader.over and self._reader.cut):
            return
        if not self._told and complete:
            self._tell("{}")
        elif not self._told:
            yield from self._tell_raw()
        elif not complete and self._form.close is not NEVER:
            yield from self._reader.until(self._form.close, ignore)

    def _members(self, *, nested: bool = False) -> Steps[bool]:
        """Whether the object was read to its closing bracket."""
        first = True
        while True:
            yield from self._reader.spaces(ignore)
            key = yield from self._reader.take(STRING)
            if key is None:
                return False
            name = unquote(key.group())
            if first and not nested and self._form.bare and name not in FIRST:
                return False
            first = False
            if not (yield from self._next(COLON)) or not (
                yield from self._member(name, nested=nested)
            ):
                return False
            mark = yield from self._next(NEXT)
            if mark != ",":
                return mark == "}"

    def _next(self, pattern: Pattern) -> Steps[str | None]:
        yield from self._reader.spaces(ignore)
        found = yield from self._reader.take(pattern)
        return None if found is None else found.group()

    def _member(self, name: str, *, nested: bool) -> Steps[bool]:
        yield from self._reader.spaces(ignore)
        if name in NAMES and self._shape is None:
            if not nested and (yield from self._reader.peek()) == "{":
                self._reader.skip()
                return (yield from self._members(nested=True))
            return (yield from self._name())
        if name in ARGUMENTS and not self._told:
            return (yield from self._arguments())
        return (yield from JsonReader(self._reader, ignore).value(ANY))

    def _name(self) -> Steps[bool]:
        found = yield from self._reader.take(STRING)
        if found is None:
            return False
        self._shape = self._answer.start_call(unquote(found.group()))
        if self._shape is not None and self._early is not None:
            early = self._early if self._early.strip() != "null" else "{}"
            self._tell(read_text(early, self._shape, otherwise=early))
        return self._shape is not None

    def _arguments(self) -> Steps[bool]:
        if self._shape is None:
            parts = list[str]()
            complete = yield from JsonReader(self._reader, parts.append).value(ANY)
            self._early = "".join(parts)
            return complete
        self._told = True
        return (
            yield from read_arguments(self._answer, self._shape, self._form.close, wrapped=True)
        )

    def _tell_raw(self) -> Steps[None]:
        raw = list[str]()
        yield from self._reader.until(self._form.close, lambda text, _: raw.append(text))
        self._tell("".join(raw).rstrip(LEFT_OVER) or "{}")

    def _tell(self, arguments: str) -> None:
        self._told = True
        self._answer.sink.arguments(arguments)
        self._answer.sink.end_call()
