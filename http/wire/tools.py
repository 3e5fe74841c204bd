"""Tools as every protocol has them: their names, and a choice among them (wire contract 3.6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from headrace.http.wire.fields import Fields, wrong_type, wrong_value
from headrace.runtime.contracts import Tool, ToolChoice, ToolUse
from headrace.runtime.errors import Code, RequestError

NAME_PATTERN = "[A-Za-z0-9_.-]{1,128}"

# A choice, and the names that it is narrowed to.
Chosen: TypeAlias = tuple[ToolChoice, tuple[str, ...]]

# What OpenAI's protocols call a choice that is one word, and one among the tools that are allowed.
WORDS: dict[str, ToolChoice] = {"none": "none", "auto": "auto", "required": "required"}
MODES: dict[str, ToolChoice] = {"auto": "auto", "required": "required"}

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


def read_choice(fields: Fields, of_object: Callable[[Fields], Chosen]) -> Chosen:
    """`tool_choice` as OpenAI's protocols have it: a word, or an object that `of_object` reads."""
    value, path = fields.value("tool_choice"), fields.path("tool_choice")
    if value is None:
        return "auto", ()
    if isinstance(value, str):
        if value not in WORDS:
            raise impossible(path, f"must be one of {', '.join(WORDS)}, or an object")
        return WORDS[value], ()
    if not isinstance(value, dict):
        raise wrong_type(path, "a string or an object")
    return of_object(Fields(value, path))


def impossible(path: str, rule: str) -> RequestError:
    return RequestError(Code.INVALID_TOOL_CHOICE, f"{path} {rule}.", param=path)
