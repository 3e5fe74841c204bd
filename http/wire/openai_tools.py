"""Tools and the choice among them, in the shape of chat completions."""

from __future__ import annotations

from headrace.http.wire.fields import Fields, as_choice, unsupported
from headrace.http.wire.rules import OBJECT
from headrace.http.wire.tools import MODES, Chosen, impossible, read_choice, read_name, use_of
from headrace.runtime.contracts import Tool, ToolUse


def read_tool_use(fields: Fields) -> ToolUse | None:
    """Raises `RequestError`. Whether a tool's schema makes sense is found out with the prompt."""
    tools: dict[str, Tool] = {}
    for item in fields.each("tools"):
        tool = _tool(item, tools)
        tools[tool.name] = tool
    parallel = fields.boolean("parallel_tool_calls")
    path = fields.path("tool_choice")
    choice, named = read_choice(fields, lambda chosen: _chosen(chosen, path))
    return use_of(tuple(tools.values()), choice, named, parallel=parallel is not False, path=path)


def _tool(item: Fields, taken: dict[str, Tool]) -> Tool:
    if item.required_text("type") != "function":
        raise unsupported(item.path("type"))
    function = item.required_object("function")
    return Tool(
        name=read_name(function, taken),
        parameters=function.read("parameters", OBJECT.read),
        description=function.text("description"),
        strict=function.boolean("strict") or False,
    )


def _chosen(chosen: Fields, path: str) -> Chosen:
    kind = chosen.required_text("type")
    if kind == "function":
        return "required", (_named(chosen),)
    if kind == "allowed_tools":
        return _allowed(chosen.required_object("allowed_tools"), path)
    raise impossible(path, "must be of type function or allowed_tools")


def _allowed(allowed: Fields, path: str) -> Chosen:
    mode = MODES[as_choice(allowed.required("mode"), allowed.path("mode"), MODES)]
    allowed.required("tools")
    named = tuple(_named(item) for item in allowed.each("tools"))
    if not named:
        raise impossible(path, "must allow at least one tool")
    return mode, named


def _named(item: Fields) -> str:
    as_choice(item.value("type") or "function", item.path("type"), ["function"])
    return item.required_object("function").required_text("name")
