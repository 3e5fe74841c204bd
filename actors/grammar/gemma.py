"""Forced calls in Gemma's notation: `call:name{key:<escape>text<escape>,other:3}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs

from headrace.actors.grammar.calls import MOST_CALLS, CallableTool, CannotWrite
from headrace.actors.grammar.lark import Rules, either, quoted
from headrace.actors.grammar.reading import Schema

_SAFE_KEY = re.compile(r"[\w$-]{1,64}")
_SCALARS = {"null", "boolean", "integer", "number"}
_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}


@attrs.frozen
class GemmaCalls:
    """`mark` stands around texts."""

    begin: str
    end: str
    mark: str

    @property
    def opener(self) -> str | None:
        return self.begin

    def calls(
        self, rules: Rules, tools: Sequence[CallableTool], *, several: bool, opened: bool = False
    ) -> str:
        body = rules.add(either([self._body(rules, tool) for tool in tools]))
        more = f"({rules.literal([self.begin])} {body}){{0,{MOST_CALLS - 1}}}" if several else ""
        return rules.add(f"{'' if opened else rules.literal([self.begin])} {body} {more}".strip())

    def _body(self, rules: Rules, tool: CallableTool) -> str:
        arguments = self._value(rules, tool, tool.arguments.schema)
        return rules.add(f"{quoted(f'call:{tool.name}')} {arguments} {rules.literal([self.end])}")

    def _value(self, rules: Rules, tool: CallableTool, schema: Schema) -> str:
        if isinstance(schema, bool) or "$ref" in schema:
            raise CannotWrite
        if "anyOf" in schema:
            return either([self._value(rules, tool, part) for part in schema["anyOf"]])
        if "enum" in schema:
            return either([self._choice(rules, schema, value) for value in schema["enum"]])
        return either([self._typed(rules, tool, name, schema) for name in schema["type"]])

    def _choice(self, rules: Rules, schema: dict[str, Any], value: Any) -> str:
        if len(schema) > 1 or isinstance(value, (list, dict)):
            raise CannotWrite
        if isinstance(value, str):
            if "<" in value:
                raise CannotWrite
            return rules.literal([self.mark, value, self.mark])
        return rules.json(f'{{"enum":[{quoted_scalar(value)}]}}')

    def _typed(self, rules: Rules, tool: CallableTool, name: str, schema: dict[str, Any]) -> str:
        if name in _SCALARS:
            bounds = {k: v for k, v in schema.items() if k in _BOUNDS}
            part: Schema = {"type": [name], **bounds}
            return rules.json(tool.arguments.document("none", part))
        if name == "string":
            if not {"minLength", "maxLength", "patterns", "format"}.isdisjoint(schema):
                raise CannotWrite
            return f"{rules.literal([self.mark])} {rules.until(self.mark)}"
        if name == "array":
            return self._array(rules, tool, schema)
        return self._object(rules, tool, schema)

    def _array(self, rules: Rules, tool: CallableTool, schema: dict[str, Any]) -> str:
        if "prefixItems" in schema:
            raise CannotWrite
        item = rules.add(self._value(rules, tool, schema.get("items", True)))
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0 or (most is not None and most < least):
            raise CannotWrite
        more = f'("," {item}){{{max(0, least - 1)},{"" if most is None else most - 1}}}'
        body = f"{item} {more}"
        return f'"[" {body if least else f"({body})?"} "]"'

    def _object(self, rules: Rules, tool: CallableTool, schema: dict[str, Any]) -> str:
        if schema.get("additionalProperties") is not False:
            raise CannotWrite
        required = schema.get("required", ())
        members = []
        for key, part in schema["properties"].items():
            if not _SAFE_KEY.fullmatch(key):
                raise CannotWrite
            member = rules.add(f"{quoted(key + ':')} {self._value(rules, tool, part)}")
            members.append((member, key in required))
        return f'"{{" {listed(rules, members)} "}}"'


def listed(rules: Rules, members: Sequence[tuple[str, bool]]) -> str:
    """Members in this order with commas between those that are there; the flag says which must
    be."""
    # What may follow a member, and what may stand where none has come yet.
    following = beginning = ""
    for member, required in reversed(members):
        first = f"{member} {following}"
        if required:
            following, beginning = rules.add(f'"," {member} {following}'), rules.add(first)
        else:
            following = rules.add(f'("," {member})? {following}')
            beginning = rules.add(f"{first} | {beginning}" if beginning else f"({first})?")
    return beginning


def quoted_scalar(value: bool | int | float | None) -> str:
    return "null" if value is None else str(value).lower()


FUNCTION_GEMMA = GemmaCalls("<start_function_call>", "<end_function_call>", "<escape>")
GEMMA4 = GemmaCalls("<|tool_call>", "<tool_call|>", '<|"|>')
