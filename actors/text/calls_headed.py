"""Calls with a header that names them and one value for all arguments: `name[ARGS]{…}`."""

from __future__ import annotations

import attrs

from headrace.actors.text.calls import (
    NEVER,
    Answer,
    Pattern,
    ignore,
    read_arguments,
    skip_left_over,
)
from headrace.actors.text.calls_json import JsonCalls
from headrace.actors.text.json_value import JsonReader
from headrace.actors.text.reader import Steps


@attrs.frozen
class HeadedCalls:
    """An opener, a header with the name, then the arguments up to `close`."""

    openers: tuple[str, ...]
    header: Pattern
    close: Pattern
    sections: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    # A header that may follow a call without a new opener.
    again: Pattern = NEVER
    values: type[JsonReader] = JsonReader
    # What may stand after the opener instead of a header.
    listed: JsonCalls | None = None
    bare: bool = False

    def call(self, answer: Answer) -> Steps[None]:
        reader = answer.reader
        if self.listed is not None and (yield from reader.spaces(ignore)) == "[":
            yield from self.listed.call(answer)
            return
        header = yield from reader.take(self.header)
        while header is not None:
            shape = answer.start_call(header["name"])
            if shape is None:
                return
            yield from read_arguments(answer, shape, self.close, values=self.values)
            yield from skip_left_over(reader)
            reader.mark()
            header = yield from reader.take(self.again)
            if header is None:
                yield from self._resume(answer)

    def _resume(self, answer: Answer) -> Steps[None]:
        """No further header came; what looked like the beginning of one is text."""
        reader = answer.reader
        reader.forget()
        if reader.starved and not reader.cut:
            yield from reader.until(NEVER, answer.sink.text)
