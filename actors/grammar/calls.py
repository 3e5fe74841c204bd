"""How forced calls are written: the grammar of a call in the markup of each model family.

What is written here is what `actors.text` reads. A family that has no writer, or whose notation
cannot hold a tool's schema, is made to write the generic JSON form instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from headrace.actors.grammar.lark import Matched, Piece, Rules, either
from headrace.actors.grammar.schema import CheckedSchema
from headrace.runtime.constraints import Whitespace

# Stands for the tool's name in the pieces of a form.
NAME = "%NAME%"
# One answer has so many calls at most; a model in a loop would go on for ever.
MOST_CALLS = 32


@attrs.frozen
class CallableTool:
    """A tool as a grammar needs it. `parameters` is the client's own schema."""

    name: str
    arguments: CheckedSchema
    parameters: Any
    whitespace: Whitespace
    # The field it came in, for errors.
    param: str | None = None

    def json(self, rules: Rules) -> str:
        return rules.json(self.arguments.document(self.whitespace))

    def named(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces with this tool's name in its place."""
        return [
            piece.replace(NAME, self.name) if isinstance(piece, str) else piece for piece in pieces
        ]


class CannotWrite(Exception):
    """A notation cannot hold the schema of a tool."""


class CallWriter(Protocol):
    """One family's way to write calls."""

    @property
    def opener(self) -> str | None:
        """What every answer with calls has first; None where a call begins like any JSON."""

    def calls(
        self, rules: Rules, tools: Sequence[CallableTool], *, several: bool, opened: bool = False
    ) -> str:
        """One call of one of the tools, or several. `opened`: the opener has been written. Raises
        `CannotWrite`."""


@attrs.frozen
class FramedCalls:
    """Calls whose arguments are one JSON object between two texts."""

    before: tuple[Piece, ...]
    after: tuple[Piece, ...]
    # Before all calls, between two, behind all.
    first: tuple[Piece, ...] = ()
    between: tuple[Piece, ...] = ()
    last: tuple[Piece, ...] = ()
    bare: bool = False

    @property
    def opener(self) -> str | None:
        opener = (*self.first, *self.before)[0]
        return None if self.bare or not isinstance(opener, str) else opener

    def calls(
        self, rules: Rules, tools: Sequence[CallableTool], *, several: bool, opened: bool = False
    ) -> str:
        call = rules.add(either([self._call(rules, tool, self.before) for tool in tools]))
        first, own = self.first, call
        if opened and first:
            first = first[1:]
        elif opened:
            own = rules.add(either([self._call(rules, tool, self.before[1:]) for tool in tools]))
        between = rules.literal(self.between)
        more = f"({between} {call}){{0,{MOST_CALLS - 1}}}" if several else ""
        return rules.add(f"{rules.literal(first)} {own} {more} {rules.literal(self.last)}".strip())

    def _call(self, rules: Rules, tool: CallableTool, before: tuple[Piece, ...]) -> str:
        head, tail = rules.literal(tool.named(before)), rules.literal(self.after)
        return rules.add(f"{head} {tool.json(rules)} {tail}".strip())


@attrs.frozen
class EitherCalls:
    """A family that has had several ways, any of which the model may have learned."""

    ways: tuple[FramedCalls, ...]

    @property
    def opener(self) -> str | None:
        return self.ways[0].opener

    def calls(
        self, rules: Rules, tools: Sequence[CallableTool], *, several: bool, opened: bool = False
    ) -> str:
        ways = [way.calls(rules, tools, several=several, opened=opened) for way in self.ways]
        return rules.add(either(ways))


HERMES = FramedCalls(
    before=("<tool_call>", f'\n{{"name": "{NAME}", "arguments": '),
    after=("}\n", "</tool_call>"),
    between=("\n",),
)
LLAMA3 = FramedCalls(
    before=(f'{{"name": "{NAME}", "parameters": ',), after=("}",), between=("; ",), bare=True
)
MISTRAL_LIST = FramedCalls(
    first=("[TOOL_CALLS]", "["),
    before=(f'{{"name": "{NAME}", "arguments": ',),
    after=("}",),
    between=(", ",),
    last=("]",),
)
MISTRAL_NAMES = FramedCalls(before=("[TOOL_CALLS]", NAME, "[ARGS]"), after=())
DEEPSEEK = EitherCalls(
    (
        FramedCalls(
            first=("<｜tool▁calls▁begin｜>",),
            before=("<｜tool▁call▁begin｜>", "function", "<｜tool▁sep｜>", f"{NAME}\n```json\n"),
            after=("\n```", "<｜tool▁call▁end｜>"),
            between=("\n",),
            last=("<｜tool▁calls▁end｜>",),
        ),
        FramedCalls(
            first=("<｜tool▁calls▁begin｜>",),
            before=("<｜tool▁call▁begin｜>", NAME, "<｜tool▁sep｜>"),
            after=("<｜tool▁call▁end｜>",),
            last=("<｜tool▁calls▁end｜>",),
        ),
    )
)
KIMI_K2 = FramedCalls(
    first=("<|tool_calls_section_begin|>",),
    before=(
        "<|tool_call_begin|>",
        f"functions.{NAME}:",
        Matched("[0-9]{1,2}"),
        "<|tool_call_argument_begin|>",
    ),
    after=("<|tool_call_end|>",),
    last=("<|tool_calls_section_end|>",),
)
