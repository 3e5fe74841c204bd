"""Gemma's notation for values: keys without quotes, strings between marks of their own."""

from __future__ import annotations

from typing import ClassVar

import regex

from headrace.actors.text.json_value import COLON, JsonReader, read_text
from headrace.actors.text.reader import Steps
from headrace.actors.text.shape import Shape, quote

KEY = regex.compile(r'(?P<key>[^:{}\[\],<"]{1,256}):')
BARE = regex.compile(r"[^,{}\[\]<]{1,1024}(?=[,}\]])")


class FunctionGemmaReader(JsonReader):
    """`{city:<escape>Oslo<escape>,days:3}`, emitted as JSON."""

    # A string's mark, and the same where it closes: a string may contain its own mark.
    mark: ClassVar[regex.Pattern[str]] = regex.compile("<escape>")
    closing: ClassVar[regex.Pattern[str]] = regex.compile(r"<escape>(?=\s{0,16}[,}\]])")

    def _key(self) -> Steps[str | None]:
        yield from self._reader.spaces(self._emit)
        if (yield from self._reader.take(self.mark)) is not None:
            return (yield from self._marked_key())
        found = yield from self._reader.take(KEY)
        if found is None:
            return None
        self._emit(quote(found["key"].strip()) + ":")
        return found["key"].strip()

    def _marked_key(self) -> Steps[str | None]:
        parts = list[str]()
        found = yield from self._reader.until(self.mark, lambda text, _: parts.append(text))
        if found is None:
            return None
        self._emit(quote("".join(parts)))
        return "".join(parts) if (yield from self._next(COLON)) else None

    def _atom(self, start: str, shape: Shape) -> Steps[bool]:
        if start == '"':
            return (yield from self._string(shape))
        if start == "<" and (yield from self._reader.take(self.mark)) is not None:
            return (yield from self._marked(shape))
        found = yield from self._reader.take(BARE)
        if found is None:
            return False
        text = found.group().strip()
        self._emit(shape.scalar(text) or quote(text))
        return True

    def _marked(self, shape: Shape) -> Steps[bool]:
        flows = not shape.types or "string" in shape.types
        held = list[str]()
        if flows:
            self._emit('"')
        found = yield from self._reader.until(
            self.closing,
            lambda text, _: self._emit(quote(text)[1:-1]) if flows else held.append(text),
            at_end=self.mark,
        )
        if found is None:
            return False
        self._emit('"' if flows else read_text("".join(held), shape))
        return True


class Gemma4Reader(FunctionGemmaReader):
    """The same with `<|"|>` around strings."""

    mark = regex.compile(r'<\|"\|>')
    closing = regex.compile(r'<\|"\|>(?=\s{0,16}[,}\]])')
