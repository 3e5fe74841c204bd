"""Calls in tags, an argument each: `<function=f><parameter=p>value</parameter></function>`."""

from __future__ import annotations

import attrs
import regex

from headrace.actors.text.calls import Answer, Pattern, ignore, read_arguments
from headrace.actors.text.json_value import read_text
from headrace.actors.text.reader import Show, Steps
from headrace.actors.text.shape import Shape, quote

STRING = Shape({"type": "string"})
NULLS = ("null", "none")


@attrs.frozen
class TaggedCalls:
    """What follows an opener. Values are plain text and may contain the closing tags themselves,
    so `value_end` looks ahead for what must come next."""

    openers: tuple[str, ...]
    sections: tuple[str, ...]
    closers: tuple[str, ...]
    # The rest of the opening tag, with a group `name`.
    header: Pattern
    # Opens an argument, with a group `key`, or else ends the call.
    tag: Pattern
    value_end: Pattern
    # The bare closing tag, for a text that ends right after it.
    value_close: Pattern
    # Looks ahead to where the call ends.
    end: Pattern
    # A value stands on lines of its own.
    lines: bool = False
    bare: bool = False

    def call(self, answer: Answer) -> Steps[None]:
        header = yield from answer.reader.take(self.header)
        shape = None if header is None else answer.start_call(header["name"].strip("\"'"))
        if shape is None:
            return
        if (yield from answer.reader.spaces(ignore)) in ("<", ""):
            yield from self._arguments(answer, shape)
        else:
            # Some models write JSON between the tags.
            yield from read_arguments(answer, shape, self.end)
            yield from answer.reader.until(self.tag, ignore)

    def _arguments(self, answer: Answer, shape: Shape) -> Steps[None]:
        reader, emit = answer.reader, answer.sink.arguments
        before = "{"
        while (tag := (yield from reader.until(self.tag, ignore))) is not None:
            if tag["key"] is None:
                break
            key = tag["key"].strip()
            emit(f"{before}{quote(key)}: ")
            before = ", "
            value = _Value(_declared(shape.member(key), tag), emit)
            if not (yield from self._value(answer, value)):
                return
        if tag is not None or not reader.cut:
            emit("}" if before == ", " else "{}")
            answer.sink.end_call()

    def _value(self, answer: Answer, value: _Value) -> Steps[bool]:
        reader = answer.reader
        if self.lines and (yield from reader.peek()) == "\n":
            reader.skip()
        found = yield from reader.until(self.value_end, value.add, at_end=self.value_close)
        if found is not None:
            value.close()
        return found is not None


class _Value:
    """An argument's text on its way to JSON: a string flows, anything else waits for its end."""

    def __init__(self, shape: Shape, emit: Show) -> None:
        self._shape = shape
        self._emit = emit
        types = shape.types
        self._flows = types == {"string"}
        self._nullable = types == {"string", "null"}
        self._held = list[str]()
        if self._flows:
            emit('"')

    def add(self, text: str, at: int) -> None:
        if self._flows:
            self._emit(quote(text)[1:-1])
            return
        self._held.append(text)
        if self._nullable and not self._may_be_null():
            self._flows = True
            self._emit(quote("".join(self._held))[:-1])

    def close(self) -> None:
        text = "".join(self._held)
        if self._flows:
            self._emit('"')
        elif self._nullable:
            self._emit("null" if text.strip().lower() in NULLS else quote(text))
        else:
            self._emit(read_text(text, self._shape))

    def _may_be_null(self) -> bool:
        text = "".join(self._held).strip().lower()
        return any(null.startswith(text) for null in NULLS)


def _declared(shape: Shape, tag: regex.Match[str]) -> Shape:
    """Some formats say in the tag whether a value is a string; the schema comes first."""
    return STRING if not shape.types and tag.groupdict().get("string") == "true" else shape


def tagged(
    opener: str,
    header: str,
    value: str,
    *,
    value_start: str,
    value_close: str,
    close: str,
    section: tuple[str, str] | None = None,
    lines: bool = False,
) -> TaggedCalls:
    """A format from its tags: `header` and `value` are patterns, the others literal texts.
    `section` stands around one or more calls."""
    ends = [regex.escape(close), *([f"(?={regex.escape(section[1])})"] if section else [])]
    after = "|".join(regex.escape(text) for text in (opener, *section[1:])) if section else ""
    closing = regex.escape(close) + (rf"\s{{0,64}}(?:{after})" if section else "")
    ahead = [regex.escape(value_start), closing]
    if section:
        # The call's own closing tag may be missing, but then nothing but calls may follow.
        ahead.append(rf"{regex.escape(section[1])}\s{{0,64}}{regex.escape(section[0])}")
    bare_close = (r"\n?" if lines else "") + regex.escape(value_close)
    return TaggedCalls(
        openers=(opener,),
        sections=section[:1] if section else (),
        closers=section[1:] if section else (),
        header=regex.compile(header),
        tag=regex.compile(f"{value}|{'|'.join(ends)}"),
        value_end=regex.compile(rf"{bare_close}(?=\s{{0,64}}(?:{'|'.join(ahead)}))"),
        value_close=regex.compile(bare_close),
        end=regex.compile(f"(?={'|'.join(ends)})"),
        lines=lines,
    )
