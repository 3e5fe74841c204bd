"""Tools and the choice among them, as chat clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.fields import Fields
from headrace.http.wire.openai_tools import read_tool_use
from headrace.runtime.contracts import Tool, ToolUse
from headrace.runtime.errors import Code, RequestError


def tool(name: str = "add", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [named(name) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def read(**fields: Any) -> ToolUse | None:
    return read_tool_use(Fields(fields))


ADD, SUB = Tool("add"), Tool("sub")
BOTH = [tool("add"), tool("sub")]


def test_a_tool_with_everything() -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"a": {"exclusiveMinimum": -(2**53)}}}
    full = tool("add", description="Adds.", parameters=schema, strict=True)
    assert read(tools=[full]) == ToolUse((Tool("add", schema, "Adds.", strict=True),))


@pytest.mark.parametrize(
    ("choice", "use"),
    [
        (None, ToolUse((ADD, SUB))),
        ("auto", ToolUse((ADD, SUB), "auto")),
        ("none", ToolUse((ADD, SUB), "none")),
        ("required", ToolUse((ADD, SUB), "required")),
        (named("sub"), ToolUse((ADD, SUB), "required", ("sub",))),
        (allowed("auto", "add"), ToolUse((ADD, SUB), "auto", ("add",))),
        (allowed("required", "add", "sub"), ToolUse((ADD, SUB), "required", ("add", "sub"))),
    ],
)
def test_every_form_of_a_choice(choice: Any, use: ToolUse) -> None:
    assert read(tools=BOTH, tool_choice=choice) == use


@pytest.mark.parametrize(("value", "parallel"), [(None, True), (True, True), (False, False)])
def test_an_answer_may_be_held_to_one_call(value: bool | None, parallel: bool) -> None:
    use = read(tools=BOTH, parallel_tool_calls=value)
    assert use is not None
    assert use.parallel is parallel


@pytest.mark.parametrize("tools", [None, []])
@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_no_tools_are_no_tools(tools: Any, choice: str | None) -> None:
    assert read(tools=tools, tool_choice=choice) is None


@pytest.mark.parametrize("tools", [None, []])
@pytest.mark.parametrize("choice", ["required", named("add"), allowed("auto", "add")])
def test_what_needs_tools_is_impossible_without(tools: Any, choice: Any) -> None:
    with pytest.raises(RequestError) as caught:
        read(tools=tools, tool_choice=choice)
    assert caught.value.code is Code.INVALID_TOOL_CHOICE
    assert caught.value.info.param == "tool_choice"


@pytest.mark.parametrize(
    ("choice", "code", "param"),
    [
        ("any", Code.INVALID_TOOL_CHOICE, "tool_choice"),
        ("add", Code.INVALID_TOOL_CHOICE, "tool_choice"),
        (named("mul"), Code.INVALID_TOOL_CHOICE, "tool_choice"),
        (allowed("auto", "add", "mul"), Code.INVALID_TOOL_CHOICE, "tool_choice"),
        (allowed("auto"), Code.INVALID_TOOL_CHOICE, "tool_choice"),
        (allowed("none", "add"), Code.INVALID_VALUE, "tool_choice.allowed_tools.mode"),
        ({"type": "web_search"}, Code.INVALID_TOOL_CHOICE, "tool_choice"),
        ({"type": "custom", "custom": {"name": "x"}}, Code.INVALID_TOOL_CHOICE, "tool_choice"),
        (5, Code.INVALID_TYPE, "tool_choice"),
        ({}, Code.MISSING_FIELD, "tool_choice.type"),
        ({"type": "function"}, Code.MISSING_FIELD, "tool_choice.function"),
        ({"type": "function", "function": {}}, Code.MISSING_FIELD, "tool_choice.function.name"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
            Code.MISSING_FIELD,
            "tool_choice.allowed_tools.tools",
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{}]}},
            Code.MISSING_FIELD,
            "tool_choice.allowed_tools.tools[0].function",
        ),
    ],
)
def test_a_choice_that_cannot_be_made(choice: Any, code: Code, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(tools=BOTH, tool_choice=choice)
    assert (caught.value.code, caught.value.info.param) == (code, param)


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 128])
def test_a_name_that_is_well_formed(name: str) -> None:
    use = read(tools=[tool(name)])
    assert use is not None
    assert use.tools == (Tool(name),)


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ("add", Code.INVALID_TYPE, "tools[1]"),
        ({}, Code.MISSING_FIELD, "tools[1].type"),
        ({"type": "custom", "custom": {}}, Code.UNSUPPORTED_PARAMETER, "tools[1].type"),
        ({"type": "web_search"}, Code.UNSUPPORTED_PARAMETER, "tools[1].type"),
        ({"type": "function"}, Code.MISSING_FIELD, "tools[1].function"),
        (tool(""), Code.INVALID_VALUE, "tools[1].function.name"),
        (tool("a b"), Code.INVALID_VALUE, "tools[1].function.name"),
        (tool("ä"), Code.INVALID_VALUE, "tools[1].function.name"),
        (tool("x" * 129), Code.INVALID_VALUE, "tools[1].function.name"),
        (tool("add\n"), Code.INVALID_VALUE, "tools[1].function.name"),
        (tool("add"), Code.INVALID_VALUE, "tools[1].function.name"),
        (tool("b", description=1), Code.INVALID_TYPE, "tools[1].function.description"),
        (tool("b", parameters="{}"), Code.INVALID_TYPE, "tools[1].function.parameters"),
        (
            tool("b", parameters={"maximum": 10**30}),
            Code.INVALID_VALUE,
            "tools[1].function.parameters",
        ),
        (tool("b", strict="yes"), Code.INVALID_TYPE, "tools[1].function.strict"),
    ],
)
def test_a_tool_that_is_none(item: Any, code: Code, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(tools=[tool("add"), item])
    assert (caught.value.code, caught.value.info.param) == (code, param)
