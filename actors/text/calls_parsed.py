"""Formats that are read by a parser from outside, when a call is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs
import msgspec
import regex

from headrace.actors.text.calls import Answer, Pattern
from headrace.actors.text.json_value import read_text
from headrace.actors.text.reader import Steps

# The text between the marks and the tools in OpenAI's shape, into one call or a list of calls,
# each `{"name": …, "arguments": {…}}`. Raises what it likes on text it cannot read.
ParseCalls: TypeAlias = Callable[[str, list[dict[str, Any]]], Any]


@attrs.frozen
class ParsedCalls:
    """Nothing of a call is known before its closing mark; one that is cut is no call."""

    openers: tuple[str, ...]
    close: Pattern
    parse: ParseCalls
    sections: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()
    bare: bool = False

    @classmethod
    def between(cls, opener: str, closer: str, parse: ParseCalls) -> ParsedCalls:
        """Calls that stand between two marks."""
        close = regex.compile(regex.escape(closer))
        return cls((opener,), close, parse, closers=(closer,))

    def call(self, answer: Answer) -> Steps[None]:
        body = list[str]()
        found = yield from answer.reader.until(self.close, lambda text, _: body.append(text))
        if found is None and answer.reader.cut:
            return
        for name, arguments in self._read("".join(body), answer):
            shape = answer.start_call(name)
            assert shape is not None
            answer.sink.arguments(read_text(arguments, shape, otherwise=arguments))
            answer.sink.end_call()

    def _read(self, body: str, answer: Answer) -> list[tuple[str, str]]:
        """Names and arguments; none if any of it cannot be read or names no tool."""
        tools = [
            {"type": "function", "function": {"name": name, "parameters": shape.schema}}
            for name, shape in answer.tools.items()
        ]
        try:
            calls = list(_named(self.parse(body, tools)))
        except Exception:  # a foreign parser of a model's text
            return []
        return calls if all(name in answer.tools for name, _ in calls) else []


def _named(parsed: Any) -> Iterator[tuple[str, str]]:
    for call in parsed if isinstance(parsed, list) else [parsed]:
        yield call["name"], msgspec.json.encode(call["arguments"]).decode()
