"""What an OpenAI-shaped decision is about: text, or items of a conversation, as one text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.http.wire.fields import (
    Fields,
    as_array,
    children,
    missing,
    wrong_type,
    wrong_value,
)
from headrace.http.wire.json_text import nests_deeper
from headrace.runtime.errors import Code, RequestError

BLANK_LINE = "\n\n"
# Which parts the messages of a role may have, with the member that holds the text.
USER = {"input_text": "text"}
INSTRUCTING = {"input_text": "text"}
ASSISTANT = {"output_text": "text", "refusal": "refusal"}
ROLES = {"user": USER, "developer": INSTRUCTING, "system": INSTRUCTING, "assistant": ASSISTANT}
# Calls and what their text is in.
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
OUTPUTS = {"function_call_output": "function_call", "custom_tool_call_output": "custom_tool_call"}
MOST_LEVELS, MOST_VALUES, MOST_BYTES = 32, 10_000, 256 * 1024


def read_state(fields: Fields) -> str:
    """The field `input`. Raises `RequestError`, which names the item."""
    value, path = fields.required("input"), fields.path("input")
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of items")
    if not value:
        raise wrong_value(path, "must not be empty")
    called: set[tuple[str, str]] = set()
    return BLANK_LINE.join(_item(item, called) for item in fields.each("input"))


def read_parts(value: Any, path: str) -> str:
    """Instructions: a text, or parts of it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of parts")
    return "\n".join(_part(part, USER, may_be_json=True) for part in _objects(value, path))


def _objects(value: Any, path: str) -> Iterator[Fields]:
    for at, part in enumerate(as_array(value, path)):
        yield Fields.of(part, f"{path}[{at}]")


def _item(item: Fields, called: set[tuple[str, str]]) -> str:
    kind = item.text("type") or "message"
    if kind == "message":
        return _message(item)
    if kind in CALLS:
        called.add((kind, item.required_text("call_id")))
        return f"assistant calls {item.required_text('name')}: {item.required_text(CALLS[kind])}"
    if kind in OUTPUTS:
        call_id = item.required_text("call_id")
        if (OUTPUTS[kind], call_id) not in called:
            raise wrong_value(item.path("call_id"), "must be that of a call before it")
        return f"result: {read_parts(item.required('output'), item.path('output'))}"
    raise wrong_value(item.path("type"), "is no kind of item that can be decided about")


def _message(item: Fields) -> str:
    role = item.required_text("role")
    if role not in ROLES:
        raise wrong_value(item.path("role"), f"must be one of {', '.join(ROLES)}")
    content, path = item.required("content"), item.path("content")
    if isinstance(content, str):
        return f"{role}: {content}"
    parts = [
        _part(part, ROLES[role], may_be_json=role == "user") for part in _objects(content, path)
    ]
    return f"{role}: " + "\n".join(parts)


def _part(part: Fields, texts: dict[str, str], *, may_be_json: bool) -> str:
    kind = part.required_text("type")
    if kind in texts:
        return part.required_text(texts[kind])
    if kind == "input_json" and may_be_json:
        return _json(part)
    if kind == "input_image":
        text = "This model cannot see images."
        raise RequestError(Code.VISION_TOWER_ABSENT, text, param=part.whole)
    text = f"{part.path('type')} is not supported here."
    raise RequestError(Code.UNSUPPORTED_CONTENT_PART, text, param=part.path("type"))


def _json(part: Fields) -> str:
    path = part.path("data")
    if "data" not in part.names():
        raise missing(path)
    data = part.value("data")
    if nests_deeper(data, MOST_LEVELS):
        raise wrong_value(path, f"must not nest deeper than {MOST_LEVELS} levels")
    if _values(data) > MOST_VALUES:
        raise wrong_value(path, f"must hold at most {MOST_VALUES} values")
    shown = msgspec.json.encode(data)
    if len(shown) > MOST_BYTES:
        raise wrong_value(path, f"must be at most {MOST_BYTES} bytes long")
    return shown.decode()


def _values(data: Any) -> int:
    """Values inside of a value, itself included."""
    total, level = 0, [data]
    while level:
        total += len(level)
        level = [child for node in level for child in children(node)]
    return total
