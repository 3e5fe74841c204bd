"""Tools and the choice among them, in the shape of Responses (wire contract 7.3).

Each tool reaches the model under one name. `Offered` knows what that name stands for, so that a
call comes back in the client's own terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from headrace.http.wire.fields import Fields, as_choice
from headrace.http.wire.responses_items import CUSTOM_INPUT
from headrace.http.wire.rules import OBJECT
from headrace.http.wire.tools import MODES, Chosen, impossible, read_choice, read_name, use_of
from headrace.runtime.contracts import Tool, ToolUse, Warning_

OWN = ("function", "custom")
SYNTAXES = ("lark", "regex")


@attrs.frozen
class Offered:
    """What a tool is called by its client."""

    name: str
    namespace: str | None = None
    custom: bool = False


@attrs.frozen
class Tools:
    use: ToolUse | None
    offered: Mapping[str, Offered]
    warnings: tuple[Warning_, ...]


@attrs.define
class _Reading:
    tools: dict[str, Tool] = attrs.field(factory=dict)
    offered: dict[str, Offered] = attrs.field(factory=dict)
    warnings: list[Warning_] = attrs.field(factory=list)

    def add(self, tool: Tool, offered: Offered) -> None:
        self.tools[tool.name] = tool
        self.offered[tool.name] = offered


def read_tools(fields: Fields) -> Tools:
    """Raises `RequestError`. Tools that only run elsewhere are left out with a warning."""
    reading = _Reading()
    for item in fields.each("tools"):
        _read(reading, item)
    path = fields.path("tool_choice")
    choice, named = read_choice(fields, lambda chosen: _chosen(chosen, path, reading.offered))
    parallel = fields.boolean("parallel_tool_calls") is not False
    use = use_of(tuple(reading.tools.values()), choice, named, parallel=parallel, path=path)
    return Tools(use, reading.offered, tuple(reading.warnings))


def _read(reading: _Reading, item: Fields) -> None:
    kind = item.required_text("type")
    if kind == "function":
        tool = _function(item, reading.tools)
        reading.add(tool, Offered(tool.name))
    elif kind == "namespace":
        space = item.required_text("name")
        for inner in item.each("tools"):
            if inner.required_text("type") == "function":
                tool = _function(inner, (), space)
                reading.add(tool, Offered(inner.required_text("name"), space))
            else:
                reading.warnings.append(_dropped(inner))
    elif kind == "custom":
        tool = _custom(item, reading)
        reading.add(tool, Offered(tool.name, custom=True))
    else:
        reading.warnings.append(_dropped(item))


def _dropped(item: Fields) -> Warning_:
    kind = item.required_text("type")[:64]
    text = f"a tool of type {kind!r} was left out: it does not run here"
    return Warning_("tool_dropped", text, item.path("type"))


def _function(item: Fields, taken: Any, space: str | None = None) -> Tool:
    name = read_name(item, taken)
    return Tool(
        name=name if space is None else f"{space}.{name}",
        parameters=item.read("parameters", OBJECT.read),
        description=item.text("description"),
        strict=item.boolean("strict") or False,
    )


def _custom(item: Fields, reading: _Reading) -> Tool:
    """A tool that takes text is one that takes an object with the text in it."""
    text: dict[str, Any] = {"type": "string"}
    form = item.object("format")
    kind = None if form is None else form.required_text("type")
    if form is not None and kind == "grammar":
        syntax = as_choice(form.required("syntax"), form.path("syntax"), SYNTAXES)
        definition = form.required_text("definition")
        if syntax == "regex":
            text["pattern"] = f"^(?:{definition})$"
        else:
            told = "the grammar of a custom tool's text is not enforced"
            reading.warnings.append(Warning_("schema_not_enforced", told, form.path("definition")))
    elif form is not None:
        as_choice(kind, form.path("type"), ["text", "grammar"])
    return Tool(
        name=read_name(item, reading.tools),
        parameters={
            "type": "object",
            "properties": {CUSTOM_INPUT: text},
            "required": [CUSTOM_INPUT],
            "additionalProperties": False,
        },
        description=item.text("description"),
        strict="pattern" in text,
    )


def _chosen(chosen: Fields, path: str, offered: Mapping[str, Offered]) -> Chosen:
    kind = chosen.required_text("type")
    if kind in OWN:
        return "required", (_named(chosen, offered),)
    if kind != "allowed_tools":
        raise impossible(path, "must be of type function, custom or allowed_tools")
    mode = MODES[as_choice(chosen.required("mode"), chosen.path("mode"), MODES)]
    named = tuple(_allowed(chosen, offered))
    if not named:
        raise impossible(path, "must allow at least one tool that runs here")
    return mode, named


def _allowed(chosen: Fields, offered: Mapping[str, Offered]) -> Iterator[str]:
    chosen.required("tools")
    for item in chosen.each("tools"):
        if item.required_text("type") in OWN:
            yield _named(item, offered)


def _named(item: Fields, offered: Mapping[str, Offered]) -> str:
    """The name that the model knows a tool by. A name without its namespace may be enough."""
    name, space = item.required_text("name"), item.text("namespace")
    if space is not None:
        return f"{space}.{name}"
    if name in offered:
        return name
    inside = [known for known, tool in offered.items() if tool.name == name]
    return inside[0] if len(inside) == 1 else name


def echoed(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools as they were sent, with what functions have in force where they do not say."""
    usual = {"description": None, "parameters": None, "strict": False}
    return [usual | tool if tool.get("type") == "function" else tool for tool in tools]
