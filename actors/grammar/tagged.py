"""Forced calls in tags, an argument each.

Texts stand between the tags as they are, numbers and words as JSON. What a tag cannot hold without
doubt (a list, an object, a text with a pattern) makes the whole call one JSON object between its
outer tags, which `actors.text` reads as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from headrace.actors.grammar.calls import MOST_CALLS, NAME, CallableTool, CannotWrite
from headrace.actors.grammar.lark import Rules, either, quoted
from headrace.actors.grammar.reading import Schema
from headrace.actors.text.shape import Shape

KEY = "%KEY%"
# "true" where the value is a text, for the notation that says so.
IS_TEXT = "%TEXT%"

_SAFE_KEY = re.compile(r"[\w.-](?:[\w. -]{0,62}[\w.-])?")
_SAFE_CHOICE = re.compile(r"[^<>\s](?:[^<>\n]{0,254}[^<>\s])?")
_SCALARS = {"null", "boolean", "integer", "number"}
_TEXT: Schema = {"type": ["string"]}
_TEXT_OR_NULL = (
    {"type": ["null", "string"]},
    {"anyOf": [{"type": ["string"]}, {"type": ["null"]}]},
    {"anyOf": [{"type": ["null"]}, {"type": ["string"]}]},
)


@attrs.frozen
class TaggedCalls:
    """A call is `head`, its arguments, `tail`; an argument is `key`, its value, `close`."""

    head: str
    tail: str
    key: str
    close: str
    # Between a value and its closing tag, and behind that tag.
    before_close: str = ""
    after_close: str = "\n"
    # Around all calls, or around each where `each_in_section`.
    section: tuple[str, str] = ("", "")
    each_in_section: bool = False
    between: str = "\n"

    @property
    def opener(self) -> str | None:
        return (self.section[0] or self.head).split(NAME)[0].rstrip("\n")

    def calls(
        self, rules: Rules, tools: Sequence[CallableTool], *, several: bool, opened: bool = False
    ) -> str:
        call = rules.add(either([self._call(rules, tool) for tool in tools]))
        own = call
        begin, end = "" if self.each_in_section else self.section[0], self._end
        if opened and begin:
            begin = begin.removeprefix(self.opener or "")
        elif opened:
            own = rules.add(either([self._call(rules, tool, opened=True) for tool in tools]))
        more = f"({quoted(self.between)} {call}){{0,{MOST_CALLS - 1}}}" if several else ""
        return rules.add(f"{rules.written(begin)} {own} {more} {rules.written(end)}".strip())

    @property
    def _end(self) -> str:
        return "" if self.each_in_section else self.section[1]

    def _call(self, rules: Rules, tool: CallableTool, *, opened: bool = False) -> str:
        begin, end = self.section if self.each_in_section else ("", "")
        head = (begin + self.head).replace(NAME, tool.name)
        if opened:
            head = head.removeprefix(self.opener or "")
        try:
            arguments = self._arguments(rules, tool)
        except CannotWrite:
            arguments = f"{tool.json(rules)} {quoted(chr(10))}"
        return rules.add(f"{rules.written(head)} {arguments} {rules.written(self.tail + end)}")

    def _arguments(self, rules: Rules, tool: CallableTool) -> str:
        schema = tool.arguments.schema
        if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
            raise CannotWrite
        if set(schema) - {"type", "properties", "required", "additionalProperties"}:
            raise CannotWrite
        required, shape = schema.get("required", ()), Shape.of(tool.parameters)
        parts = [
            self._argument(rules, tool, key, part, shape.member(key).types)
            + ("" if key in required else "?")
            for key, part in schema["properties"].items()
            if part is not False or key in required
        ]
        return " ".join(parts)

    def _argument(
        self, rules: Rules, tool: CallableTool, key: str, schema: Schema, types: frozenset[str]
    ) -> str:
        if not _SAFE_KEY.fullmatch(key):
            raise CannotWrite
        text = "string" in types
        value = self._text(rules, schema) if text else self._scalar(rules, tool, schema)
        opening = self.key.replace(KEY, key).replace(IS_TEXT, str(text).lower())
        return rules.add(f"{rules.written(opening)} {value} {quoted(self.after_close)}")

    def _text(self, rules: Rules, schema: Schema) -> str:
        """A text as it is, up to its closing tag. Read back, all of it is one string."""
        if schema == _TEXT or schema in _TEXT_OR_NULL:
            return rules.until(self.close)
        choices: list[Any] = []
        if isinstance(schema, dict) and schema.keys() == {"enum"}:
            choices = schema["enum"]
        if not choices or not all(map(_is_safe, choices)):
            raise CannotWrite
        return f"{either([quoted(choice) for choice in choices])} {self._closing(rules)}"

    def _scalar(self, rules: Rules, tool: CallableTool, schema: Schema) -> str:
        """A value in JSON that cannot contain a tag."""
        if not isinstance(schema, dict) or not _is_scalar(schema):
            raise CannotWrite
        value = rules.json(tool.arguments.document(tool.whitespace, schema))
        return f"{value} {self._closing(rules)}"

    def _closing(self, rules: Rules) -> str:
        return rules.written(self.before_close + self.close)


def _is_safe(choice: Any) -> bool:
    return isinstance(choice, str) and _SAFE_CHOICE.fullmatch(choice) is not None


def _is_scalar(schema: dict[str, Any]) -> bool:
    if "enum" in schema:
        return all(not isinstance(value, (str, list, dict)) for value in schema["enum"])
    if "anyOf" in schema:
        return all(isinstance(part, dict) and _is_scalar(part) for part in schema["anyOf"])
    return "type" in schema and _SCALARS.issuperset(schema["type"])


GLM = TaggedCalls(
    head=f"<tool_call>{NAME}\n",
    key=f"<arg_key>{KEY}</arg_key>\n<arg_value>",
    close="</arg_value>",
    tail="</tool_call>",
)
LONGCAT = TaggedCalls(
    head=f"<longcat_tool_call>{NAME}\n",
    key=f"<longcat_arg_key>{KEY}</longcat_arg_key>\n<longcat_arg_value>",
    close="</longcat_arg_value>",
    tail="</longcat_tool_call>",
)
QWEN3_CODER = TaggedCalls(
    head=f"<function={NAME}>\n",
    key=f"<parameter={KEY}>\n",
    close="</parameter>",
    before_close="\n",
    tail="</function>",
    section=("<tool_call>\n", "\n</tool_call>"),
    each_in_section=True,
)
MINIMAX_M2 = TaggedCalls(
    head=f'<invoke name="{NAME}">\n',
    key=f'<parameter name="{KEY}">',
    close="</parameter>",
    tail="</invoke>",
    section=("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
)
MUSE_SPARK = TaggedCalls(
    head=f'<atem:invoke name="{NAME}">\n',
    key=f'<atem:parameter name="{KEY}">',
    close="</atem:parameter>",
    tail="</atem:invoke>",
    section=("<atem:function_calls>\n", "\n</atem:function_calls>"),
)
DEEPSEEK_DSML = TaggedCalls(
    head=f'<｜DSML｜invoke name="{NAME}">\n',
    key=f'<｜DSML｜parameter name="{KEY}" string="{IS_TEXT}">',
    close="</｜DSML｜parameter>",
    tail="</｜DSML｜invoke>",
    section=("<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>"),
)
