"""Message lists of the OpenAI shape, each message reduced to a role and a text.

A list means the same on every route (wire contract 3.1). How messages become turns that a chat
template takes is decided where the template is known.
"""

from __future__ import annotations

from typing import Any

from headrace.http.wire.content import read_content
from headrace.http.wire.fields import Fields, as_array, as_choice, missing, wrong_value
from headrace.http.wire.json_text import parsed_or_text
from headrace.runtime.contracts import Message, Role

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_messages(value: Any, path: str = "messages") -> tuple[Message, ...]:
    """The messages as they came, in their order."""
    items = as_array(value, path)
    if not items:
        raise wrong_value(path, "must not be empty")
    return tuple(_message(item, f"{path}[{index}]") for index, item in enumerate(items))


def _message(value: Any, path: str) -> Message:
    fields = Fields.of(value, path)
    role = ROLES[as_choice(fields.required("role"), fields.path("role"), ROLES)]
    calls = _tool_calls(fields) if role == "assistant" else ()
    reasoning = _reasoning(fields) if role == "assistant" else None
    return Message(
        role=role,
        content=_content(fields, may_be_empty=bool(calls or reasoning)),
        reasoning=reasoning,
        tool_calls=calls,
        tool_call_id=fields.text("tool_call_id"),
        name=fields.text("name"),
    )


def _content(fields: Fields, *, may_be_empty: bool) -> str:
    value = fields.value("content")
    if value is not None:
        return read_content(value, fields.path("content"))
    refusal = fields.text("refusal")
    if refusal is None and not may_be_empty:
        raise missing(fields.path("content"))
    return refusal or ""


def _reasoning(fields: Fields) -> str | None:
    return fields.text("reasoning_content") or fields.text("reasoning")


def _tool_calls(fields: Fields) -> tuple[dict[str, Any], ...]:
    """Calls of an earlier turn in the shape that chat templates read."""
    calls = [
        _tool_call(Fields.of(item, f"{fields.path('tool_calls')}[{index}]"))
        for index, item in enumerate(fields.array("tool_calls") or ())
    ]
    legacy = fields.object("function_call")
    return tuple(calls) if legacy is None else (*calls, _call(legacy))


def _tool_call(fields: Fields) -> dict[str, Any]:
    as_choice(fields.value("type") or "function", fields.path("type"), ["function"])
    call = _call(fields.required_object("function"))
    call_id = fields.text("id")
    return call if call_id is None else {"id": call_id} | call


def _call(function: Fields) -> dict[str, Any]:
    name = function.required_text("name")
    return {"type": "function", "function": {"name": name, "arguments": _arguments(function)}}


def _arguments(function: Fields) -> Any:
    """Parsed where they are JSON: templates print the value in their own way."""
    value = function.value("arguments")
    if isinstance(value, dict):
        return value
    return parsed_or_text(function.text("arguments") or "{}")
