"""Items of a Responses conversation as neutral turns (wire contract 7.2).

Items come from a body, or from what was stored of an earlier response; they are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import msgspec

from headrace.http.wire.call_ids import CallIds
from headrace.http.wire.content import MEDIA_PARTS, TEXT_PARTS, read_content
from headrace.http.wire.fields import Fields, as_array, as_choice, missing, wrong_type, wrong_value
from headrace.http.wire.json_text import parsed_or_text
from headrace.http.wire.messages import ROLES
from headrace.runtime.contracts import Message
from headrace.runtime.errors import Code, RequestError

REFERENCE = "item_reference"
FILE_PART = "input_file"
# The argument that holds the text of a call to a tool without a schema.
CUSTOM_INPUT = "input"
PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
}
OTHER_PREFIX = "item_"


def listed(value: Any, path: str) -> list[dict[str, Any]]:
    """The items of an `input`, with their types; a text is a message of the user."""
    if isinstance(value, str):
        part = {"type": "input_text", "text": value}
        return [{"type": "message", "role": "user", "content": [part]}]
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of items")
    if not value:
        raise wrong_value(path, "must not be empty")
    return [_typed(Fields.of(item, f"{path}[{i}]"), item) for i, item in enumerate(value)]


def _typed(fields: Fields, item: dict[str, Any]) -> dict[str, Any]:
    if fields.text("type") is not None:
        return item
    if fields.has("role"):
        return item | {"type": "message"}
    if fields.has("id"):
        return item | {"type": REFERENCE}
    raise missing(fields.path("type"))


def references(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """The ids of items that are only named."""
    named = [item.get("id") for item in items if item.get("type") == REFERENCE]
    return [name for name in named if isinstance(name, str)]


def resolved(
    items: Iterable[dict[str, Any]], found: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """The items with those in place that were only named. Raises `RequestError`."""
    whole = []
    for item in items:
        if item.get("type") != REFERENCE:
            whole.append(item)
        elif item.get("id") in found:
            whole.append(found[item["id"]])
        else:
            text = "No item with this id is stored."
            raise RequestError(Code.ITEM_NOT_FOUND, text, param="input")
    return whole


def numbered(items: Iterable[dict[str, Any]], token: str) -> list[dict[str, Any]]:
    """The items, each with an id: its own, or a fresh one."""
    return [
        item if item.get("id") else item | {"id": _fresh(item, token, number)}
        for number, item in enumerate(items)
    ]


def _fresh(item: Mapping[str, Any], token: str, number: int) -> str:
    prefix = PREFIXES.get(item.get("type", ""), OTHER_PREFIX)
    return CallIds(f"{token}/input", prefix).of(0, number)


@attrs.define
class _Turns:
    messages: list[Message] = attrs.field(factory=list)
    # Of the turn that follows.
    thoughts: str | None = None

    def add(self, message: Message) -> None:
        if message.role == "assistant":
            message = attrs.evolve(message, reasoning=self.thoughts)
        self.thoughts = None
        self.messages.append(message)


def read_items(items: Iterable[Any], path: str) -> tuple[Message, ...]:
    """Raises `RequestError`, which names the item."""
    turns = _Turns()
    for index, item in enumerate(items):
        _take(turns, Fields.of(item, f"{path}[{index}]"))
    return tuple(turns.messages)


def _take(turns: _Turns, item: Fields) -> None:
    kind = item.required_text("type")
    match kind:
        case "message":
            turns.add(_message(item))
        case "function_call":
            name = item.required_text("name")
            space = item.text("namespace")
            arguments = parsed_or_text(item.text("arguments") or "{}")
            turns.add(_call(item, name if space is None else f"{space}.{name}", arguments))
        case "custom_tool_call":
            text = item.required_text("input")
            turns.add(_call(item, item.required_text("name"), {CUSTOM_INPUT: text}))
        case "function_call_output" | "custom_tool_call_output":
            call_id = item.required_text("call_id")
            turns.add(Message("tool", _output(item), tool_call_id=call_id))
        case "reasoning":
            turns.thoughts = _thoughts(item) or turns.thoughts
        case _:
            raise _unsupported(item, f"items of type {kind[:40]!r} are not supported")


def _message(item: Fields) -> Message:
    role = ROLES[as_choice(item.required("role"), item.path("role"), ROLES)]
    content, path = item.required("content"), item.path("content")
    if isinstance(content, list):
        for index, part in enumerate(content):
            if isinstance(part, dict) and part.get("type") == FILE_PART:
                raise _unsupported(item, f"content[{index}] is a file, which cannot be read")
    return Message(role, read_content(content, path))


def _call(item: Fields, name: str, arguments: Any) -> Message:
    call_id = item.required_text("call_id")
    function = {"name": name, "arguments": arguments}
    return Message(
        "assistant", "", tool_calls=({"id": call_id, "type": "function", "function": function},)
    )


def _output(item: Fields) -> str:
    """What a tool gave: text, or parts that stand for text; anything else as JSON."""
    value = item.required("output")
    if isinstance(value, str):
        return value
    known = TEXT_PARTS.keys() | MEDIA_PARTS.keys()
    if (
        isinstance(value, list)
        and value
        and all(isinstance(part, dict) and part.get("type") in known for part in value)
    ):
        return read_content(value, item.path("output"))
    return msgspec.json.encode(value).decode()


def _thoughts(item: Fields) -> str:
    """The reasoning itself, or else what was told of it."""
    for name in ("content", "summary"):
        texts = [part.required_text("text") for part in item.each(name)]
        if texts:
            return "\n".join(texts)
    return ""


def _unsupported(item: Fields, rule: str) -> RequestError:
    path = item.path("type").removesuffix(".type")
    return RequestError(Code.UNSUPPORTED_INPUT_ITEM, f"{path}: {rule}.", param=path)


def droppable(items: list[dict[str, Any]]) -> list[int]:
    """Which items may be left out to make room, the oldest first: not what the system says, and
    not what the user said last."""
    users = [i for i, item in enumerate(items) if item.get("role") == "user"]
    last = users[-1] if users else len(items) - 1
    spoken = as_array(items, "input")[:last]
    return [i for i, item in enumerate(spoken) if item.get("role") not in ("system", "developer")]
