"""Tools and the choice among them, in the shape of Anthropic's messages."""

from __future__ import annotations

from headrace.http.wire.fields import Fields, as_choice
from headrace.http.wire.rules import OBJECT
from headrace.http.wire.tools import read_name, use_of
from headrace.runtime.contracts import Tool, ToolChoice, ToolUse, Warning_

CHOICES: dict[str, ToolChoice] = {
    "auto": "auto",
    "any": "required",
    "tool": "required",
    "none": "none",
}
OWN = ("custom", "function")


def read_tool_use(fields: Fields) -> tuple[ToolUse | None, tuple[Warning_, ...]]:
    """Raises `RequestError`. Tools that only their maker's servers can run are left out, which
    the client is told."""
    tools: dict[str, Tool] = {}
    warnings: list[Warning_] = []
    for item in fields.each("tools"):
        if _hosted(item):
            kind = item.required_text("type")
            text = f"a tool of type {kind[:64]!r} was left out: it does not run here"
            warnings.append(Warning_("tool_dropped", text, item.path("type")))
            continue
        tool = _tool(item, tools)
        tools[tool.name] = tool
    choice, named, parallel = _choice(fields)
    path = fields.path("tool_choice")
    use = use_of(tuple(tools.values()), choice, named, parallel=parallel, path=path)
    return use, tuple(warnings)


def _hosted(item: Fields) -> bool:
    return item.text("type") not in (None, *OWN) and item.value("input_schema") is None


def _tool(item: Fields, taken: dict[str, Tool]) -> Tool:
    item.required("input_schema")
    return Tool(
        name=read_name(item, taken),
        parameters=item.read("input_schema", OBJECT.read),
        description=item.text("description"),
        strict=item.boolean("strict") or False,
    )


def _choice(fields: Fields) -> tuple[ToolChoice, tuple[str, ...], bool]:
    """The choice, the names that it is narrowed to, and whether several calls may come."""
    chosen = fields.object("tool_choice")
    if chosen is None:
        return "auto", (), True
    kind = as_choice(chosen.required("type"), chosen.path("type"), CHOICES)
    named = (chosen.required_text("name"),) if kind == "tool" else ()
    return CHOICES[kind], named, not chosen.boolean("disable_parallel_tool_use")
