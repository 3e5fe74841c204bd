"""Tools as every protocol has them: their names, and a choice among them (wire contract 3.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.http.wire.fields import Fields, wrong_value
from headrace.runtime.contracts import Tool, ToolChoice, ToolUse
from headrace.runtime.errors import Code, RequestError

NAME_PATTERN = "[A-Za-z0-9_.-]{1,128}"

_name = re.compile(NAME_PATTERN)


def read_name(function: Fields, taken: Iterable[str]) -> str:
    """The name of a tool, well formed and unlike all names before it."""
    name, path = function.required_text("name"), function.path("name")
    if not _name.fullmatch(name):
        raise wrong_value(path, "must be 1 to 128 of the characters A-Z a-z 0-9 _ - .")
    if name in taken:
        raise wrong_value(path, "must not be the name of an earlier tool")
    return name


def use_of(
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    named: tuple[str, ...] = (),
    *,
    parallel: bool = True,
    path: str = "tool_choice",
) -> ToolUse | None:
    """What a request makes of its tools; None where it has none. Raises `RequestError`
    (invalid_tool_choice)."""
    known = {tool.name for tool in tools}
    if not tools and (named or choice == "required"):
        raise impossible(path, "needs tools")
    for name in named:
        if name not in known:
            raise impossible(path, f"names {name[:128]!r}, which is none of the tools")
    return ToolUse(tools, choice, named, parallel) if tools else None


def impossible(path: str, rule: str) -> RequestError:
    return RequestError(Code.INVALID_TOOL_CHOICE, f"{path} {rule}.", param=path)
