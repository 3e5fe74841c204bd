"""Messages of Anthropic's shape: blocks of content as neutral turns (wire contract 6.1).

Blocks that belong to tools of the maker's own servers mean nothing here. They are left out, and
`Conversation.warnings` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from headrace.http.wire.content import MEDIA_PARTS
from headrace.http.wire.fields import Fields, as_array, as_choice, wrong_type, wrong_value
from headrace.http.wire.rules import OBJECT
from headrace.runtime.contracts import Message, Warning_
from headrace.runtime.errors import Code, RequestError

ROLES = ("user", "assistant", "system")
# A line that names a client's build; it changes with each call and would part equal prefixes.
BILLING = "x-anthropic-billing-header:"
HOSTED = ("server_tool_use", "mcp_tool_use", "container_upload", "tool_reference")
HOSTED_RESULT = "_tool_result"
IMAGE_SOURCES = ("base64", "url")
FAILED = "Error: "


@attrs.frozen
class Conversation:
    messages: tuple[Message, ...]
    warnings: tuple[Warning_, ...]


@attrs.define
class Turn:
    """The blocks of one message, by what becomes of them."""

    texts: list[str] = attrs.field(factory=list)
    thoughts: list[str] = attrs.field(factory=list)
    calls: list[dict[str, Any]] = attrs.field(factory=list)
    results: list[Message] = attrs.field(factory=list)
    # Paths of blocks that were left out.
    dropped: list[str] = attrs.field(factory=list)


def read_conversation(fields: Fields) -> Conversation:
    """`system` and `messages`, in their order. Raises `RequestError`."""
    dropped: list[str] = []
    messages = list(_system(fields))
    path = fields.path("messages")
    items = as_array(fields.required("messages"), path)
    if not items:
        raise wrong_value(path, "must not be empty")
    for index, item in enumerate(items):
        messages += _turns(Fields.of(item, f"{path}[{index}]"), dropped)
    return Conversation(tuple(messages), tuple(map(_left_out, dropped)))


def _left_out(path: str) -> Warning_:
    text = f"{path} was left out: it belongs to a tool that does not run here"
    return Warning_("block_dropped", text, path)


def _system(fields: Fields) -> Iterator[Message]:
    value, path = fields.value("system"), fields.path("system")
    if value is None:
        return
    if isinstance(value, str):
        texts = [value]
    elif isinstance(value, list):
        texts = [_text_alone(Fields.of(item, f"{path}[{i}]")) for i, item in enumerate(value)]
    else:
        raise wrong_type(path, "a string or an array of text blocks")
    if texts and texts[0].startswith(BILLING):
        texts[0] = texts[0].partition("\n")[2]
    if text := "\n".join(text for text in texts if text):
        yield Message("system", text)


def _text_alone(block: Fields) -> str:
    as_choice(block.required("type"), block.path("type"), ["text"])
    return block.required_text("text")


def _turns(fields: Fields, dropped: list[str]) -> list[Message]:
    """A message as the turns that it stands for: results of tools come before its text."""
    role = as_choice(fields.required("role"), fields.path("role"), ROLES)
    turn = Turn(dropped=dropped)
    content, path = fields.required("content"), fields.path("content")
    if isinstance(content, str):
        turn.texts.append(content)
    elif isinstance(content, list):
        for index, item in enumerate(content):
            _take(turn, Fields.of(item, f"{path}[{index}]"), role)
    else:
        raise wrong_type(path, "a string or an array of blocks")
    text = "\n".join(turn.texts)
    if role == "system":
        return [Message("system", text)]
    if role == "assistant":
        thoughts = "\n".join(turn.thoughts) or None
        return [Message("assistant", text, thoughts, tuple(turn.calls))]
    return turn.results if turn.results and not text else [*turn.results, Message("user", text)]


def _take(turn: Turn, block: Fields, role: str) -> None:
    kind = block.required_text("type")
    if kind == "tool_use" and role == "assistant":
        turn.calls.append(_call(block))
    elif kind == "thinking" and role == "assistant":
        turn.thoughts += [text] if (text := block.required_text("thinking")) else []
    elif kind == "redacted_thinking" and role == "assistant":
        pass
    elif kind == "tool_result" and role == "user":
        turn.results.append(_result(block, turn.dropped))
    elif role != "system" and _hosted(kind):
        turn.dropped.append(block.path("type").removesuffix(".type"))
    else:
        turn.texts.append(_text(block, kind, images=role == "user"))


def _hosted(kind: str) -> bool:
    return kind in HOSTED or kind.endswith(HOSTED_RESULT)


def _call(block: Fields) -> dict[str, Any]:
    arguments = OBJECT.read(block.required("input"), block.path("input"))
    function = {"name": block.required_text("name"), "arguments": arguments}
    return {"id": block.required_text("id"), "type": "function", "function": function}


def _result(block: Fields, dropped: list[str]) -> Message:
    """What a tool gave, as the turn of the tool."""
    value, path = block.value("content"), block.path("content")
    texts: list[str] = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            inner = Fields.of(item, f"{path}[{index}]")
            kind = inner.required_text("type")
            if _hosted(kind):
                dropped.append(f"{path}[{index}]")
            else:
                texts.append(_text(inner, kind, images=True))
    elif value is not None:
        texts.append(block.text("content") or "")
    prefix = FAILED if block.boolean("is_error") else ""
    call_id = block.required_text("tool_use_id")
    return Message("tool", prefix + "\n".join(texts), tool_call_id=call_id)


def _text(block: Fields, kind: str, *, images: bool) -> str:
    """The text of a block that stands for text. Raises `RequestError` for all others."""
    if kind == "text":
        return block.required_text("text")
    if kind == "document":
        return _document(block)
    if kind == "search_result":
        return "\n".join([block.text("title") or "", *_texts(block, "content")]).lstrip("\n")
    if kind == "image":
        return _image(block, images)
    if kind in MEDIA_PARTS:
        raise _media(block, kind)
    raise _unsupported(block, f"blocks of type {kind[:40]!r} are not supported here")


def _document(block: Fields) -> str:
    source = block.required_object("source")
    kind = source.required_text("type")
    if kind == "text":
        texts = [source.required_text("data")]
    elif kind == "content" and isinstance(source.value("content"), str):
        texts = [source.required_text("content")]
    elif kind == "content":
        texts = list(_texts(source, "content"))
    else:
        raise _unsupported(source, f"documents with a source of type {kind[:40]!r} cannot be read")
    return "\n".join([part for name in ("title", "context") if (part := block.text(name))] + texts)


def _texts(fields: Fields, name: str) -> Iterator[str]:
    for inner in fields.each(name):
        kind = inner.required_text("type")
        yield _text(inner, kind, images=True)


def _image(block: Fields, allowed: bool) -> str:
    source = block.required_object("source")
    kind = source.required_text("type")
    if not allowed or kind not in IMAGE_SOURCES:
        raise _unsupported(block, f"an image from a source of type {kind[:40]!r} cannot stand here")
    raise _media(block, "image")


def _media(block: Fields, kind: str) -> RequestError:
    path = block.path("type").removesuffix(".type")
    message = f"{path}: the model reads text only and cannot take a block of type {kind!r}."
    return RequestError(MEDIA_PARTS[kind], message, param=path)


def _unsupported(block: Fields, rule: str) -> RequestError:
    path = block.path("type").removesuffix(".type")
    return RequestError(Code.UNSUPPORTED_CONTENT_PART, f"{path}: {rule}.", param=path)
