"""JSON as a model writes it, passed on as JSON that a client can read, piece by piece.

Text goes through as written, apart from what the tool's schema or JSON itself demands: `3.0` for
an integer becomes 3, `"3"` for a number becomes 3, a raw line break inside a string becomes `\\n`.
Strings flow; a value that may still change waits until it is complete.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import msgspec
import regex

from headrace.actors.text.reader import Reader, Show, Steps
from headrace.actors.text.shape import Shape, kind, may_be, quote

DEPTH = 64
KEY = regex.compile(r'"(?:[^"\\\x00-\x1f]|\\.){0,1024}"')
COLON = regex.compile(":")
NEXT_MEMBER = regex.compile("[,}]")
NEXT_ITEM = regex.compile(r"[,\]]")
WORD = regex.compile(r"[-+.\w]{1,1024}(?=[^-+.\w])")
STRING = regex.compile(
    r'(?P<plain>(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})+)'
    r"|(?P<control>[\x00-\x1f])"
    # A backslash that begins no escape of JSON's.
    r'|(?P<stray>\\(?=[^"\\/bfnrtu]|u[0-9a-fA-F]{0,3}[^0-9a-fA-F]))'
    r'|(?P<end>")'
)


class JsonReader:
    """Takes one JSON value from a reader and emits it as its shape wants it."""

    def __init__(self, reader: Reader, emit: Show) -> None:
        self._reader = reader
        self._emit = emit

    def value(self, shape: Shape, depth: int = 0) -> Steps[bool]:
        """True when the value is complete. False where it cannot go on as JSON or has ended
        early: all that was taken is emitted, except a part that a longer text might change."""
        start = yield from self._reader.spaces(self._emit)
        if start == "{":
            return (yield from self._object(shape, depth))
        if start == "[":
            return (yield from self._array(shape, depth))
        return (yield from self._atom(start, shape))

    def _atom(self, start: str, shape: Shape) -> Steps[bool]:
        if start == '"':
            return (yield from self._string(shape))
        return (yield from self._word(shape))

    def _object(self, shape: Shape, depth: int) -> Steps[bool]:
        self._emit(self._reader.skip())
        if (yield from self._empty("}")):
            return True
        while depth < DEPTH:
            key = yield from self._key()
            if key is None or not (yield from self.value(shape.member(key), depth + 1)):
                return False
            mark = yield from self._next(NEXT_MEMBER)
            if mark != ",":
                return mark == "}"
        return False

    def _array(self, shape: Shape, depth: int) -> Steps[bool]:
        self._emit(self._reader.skip())
        if (yield from self._empty("]")):
            return True
        index = 0
        while depth < DEPTH:
            if not (yield from self.value(shape.item(index), depth + 1)):
                return False
            index += 1
            mark = yield from self._next(NEXT_ITEM)
            if mark != ",":
                return mark == "]"
        return False

    def _empty(self, close: str) -> Steps[bool]:
        found = (yield from self._reader.spaces(self._emit)) == close
        if found:
            self._emit(self._reader.skip())
        return found

    def _next(self, pattern: regex.Pattern[str]) -> Steps[str | None]:
        yield from self._reader.spaces(self._emit)
        found = yield from self._reader.take(pattern)
        if found is None:
            return None
        self._emit(found.group())
        return found.group()

    def _key(self) -> Steps[str | None]:
        yield from self._reader.spaces(self._emit)
        key = yield from self._reader.take(KEY)
        if key is None:
            return None
        self._emit(key.group())
        return unquote(key.group()) if (yield from self._next(COLON)) else None

    def _string(self, shape: Shape) -> Steps[bool]:
        types = shape.types
        if not types or "string" in types:
            self._emit(self._reader.skip())
            return (yield from self._string_rest(self._emit))
        held = [self._reader.skip()]
        complete = yield from self._string_rest(held.append)
        text = "".join(held)
        if complete:
            self._emit(read_text(unquote(text), shape, otherwise=text))
        elif not self._reader.cut:
            self._emit(text)
        return complete

    def _string_rest(self, emit: Show) -> Steps[bool]:
        while (found := (yield from self._reader.take(STRING))) is not None:
            text = found.group()
            emit(_REPAIR[found.lastgroup](text) if found.lastgroup in _REPAIR else text)
            if found.lastgroup == "end":
                return True
        return False

    def _word(self, shape: Shape) -> Steps[bool]:
        found = yield from self._reader.take(WORD)
        if found is None:
            return False
        value = shape.scalar(found.group())
        self._emit(found.group() if value is None else value)
        return value is not None


_REPAIR: dict[str | None, Callable[[str], str]] = {
    "control": lambda text: quote(text)[1:-1],
    "stray": lambda text: text + text,
}


def unquote(text: str) -> str:
    """The string that a JSON string stands for; the text between the quotes if it is none."""
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        return text[1:-1]


def read_whole(text: str, shape: Shape) -> str | None:
    """A JSON text as its shape wants it, None if it is not exactly one JSON value."""
    reader, parts = Reader(), list[str]()
    # The space ends a number that would otherwise wait for its next digit.
    reader.feed(text.strip() + " ")
    reader.end(cut=True)
    steps = JsonReader(reader, parts.append).value(shape)
    try:
        next(steps)
    except StopIteration as done:
        complete = done.value and reader.position == len(text.strip())
        return "".join(parts) if complete else None
    raise AssertionError("a reader that has ended does not wait")


def read_text(text: str, shape: Shape, *, otherwise: str | None = None) -> str:
    """JSON for a value that was written as plain text. What cannot be read as its schema says
    stays the text it is, or `otherwise`."""
    types = shape.types
    if types == {"string"}:
        return quote(text)
    value = read_whole(text, shape) or _read_python(text, types)
    if value is not None and may_be(kind(value), types):
        return value
    return quote(text) if otherwise is None else otherwise


def _read_python(text: str, types: frozenset[str]) -> str | None:
    """Lists and dictionaries in Python's notation, which some models write."""
    if not types & {"object", "array"} or text.strip()[:1] not in ("{", "["):
        return None
    try:
        value: Any = ast.literal_eval(text.strip())
        return msgspec.json.encode(value).decode()
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
