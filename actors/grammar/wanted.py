"""What one answer is to consist of, before it is known how its model writes that."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from headrace.actors.grammar.calls import CallableTool
from headrace.actors.grammar.schema import checked_parameters
from headrace.actors.grammar.value import Value, value_of
from headrace.runtime.constraints import Constraint, Suspect, Whitespace
from headrace.runtime.contracts import ToolUse
from headrace.runtime.errors import Code, RequestError

# The value alone, calls alone, one or the other, or any text with calls in it.
Mode: TypeAlias = Literal["value", "calls", "either", "free"]


@attrs.frozen
class Wanted:
    """`tools` may be called, more than once if `several`."""

    mode: Mode
    value: Value | None = None
    tools: tuple[CallableTool, ...] = ()
    several: bool = True

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        own = () if self.value is None else self.value.suspects
        return (
            *own,
            *(part for tool in self.tools for part in tool.arguments.suspects(tool.param)),
        )

    @property
    def code(self) -> Code:
        return Code.INVALID_SCHEMA if self.value is None else self.value.code


def wanted(constraint: Constraint | None, tools: ToolUse | None) -> Wanted | None:
    """None where an answer may be anything. Raises `RequestError` (invalid_schema,
    invalid_grammar)."""
    value = None if constraint is None else value_of(constraint)
    mode = _mode(value, tools)
    if mode is None:
        return None
    if tools is None or mode == "value":
        return Wanted(mode, value)
    whitespace = "short" if constraint is None else constraint.whitespace
    value = value if mode == "either" else None
    return Wanted(mode, value, callable_tools(tools, whitespace), tools.parallel)


def callable_tools(tools: ToolUse, whitespace: Whitespace = "short") -> tuple[CallableTool, ...]:
    """The tools that may be called; those that may not must have schemas all the same. Raises
    `RequestError` (invalid_schema)."""
    found = []
    for index, tool in enumerate(tools.tools):
        param = f"tools[{index}]"
        try:
            arguments = checked_parameters(tool.parameters, strict=tool.strict)
        except RequestError as error:
            raise RequestError.of(attrs.evolve(error.info, param=param)) from None
        if not tools.named or tool.name in tools.named:
            found.append(CallableTool(tool.name, arguments, tool.parameters, whitespace, param))
    return tuple(found)


def _mode(value: Value | None, tools: ToolUse | None) -> Mode | None:
    if tools is None or tools.choice == "none":
        return None if value is None else "value"
    if tools.choice == "required":
        return "calls"
    if value is not None:
        return "either"
    # Arguments are held to their schema where one tool at least asks for it.
    return "free" if any(tool.strict for tool in tools.tools) else None
