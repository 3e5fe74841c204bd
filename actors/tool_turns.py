"""Tools, calls and results as a chat template takes them. Pure: messages in, messages out.

Some templates know nothing of tools. For those they are described in the system text, and the
calls and results of earlier turns are written out, in the form that the Hermes models made common.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import msgspec

from headrace.runtime.contracts import Message, Tool
from headrace.runtime.ports import TemplateTraits

SHORT_ID = re.compile("[A-Za-z0-9]{9}")

DESCRIPTION = """\
You can use these tools. Each line describes one: its name, what it does, and the JSON schema of \
its arguments.
<tools>
{tools}
</tools>

To use a tool, write a JSON object with its name and its arguments between these tags, and one \
pair of tags for each use:
<tool_call>
{{"name": "the tool's name", "arguments": {{"an argument": "its value"}}}}
</tool_call>
What it gives comes back between <tool_response> and </tool_response>. Use a tool only where it \
helps, and none that is not listed."""


def offered(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools in the shape that templates read. Many fail on one that lacks a part."""
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def described(tools: Sequence[Tool]) -> Message:
    """The system text that stands for tools which the template would not show."""
    lines = "\n".join(_json(_function(tool)) for tool in tools)
    return Message("system", DESCRIPTION.format(tools=lines))


def written_out(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Calls become text of the assistant, and results text of the user."""
    return tuple(_written_out(message) for message in messages)


def arranged(messages: Sequence[Message], traits: TemplateTraits) -> tuple[Message, ...]:
    """The same turns with calls and results in the form that the template wants."""
    if not traits.calls:
        return written_out(messages)
    turns = _paired(messages, short_ids=traits.short_ids)
    if not traits.several_calls:
        turns = _one_call_each(turns)
    return tuple(
        attrs.evolve(
            turn, tool_calls=tuple(_with_arguments(call, traits) for call in turn.tool_calls)
        )
        if turn.tool_calls
        else turn
        for turn in turns
    )


def _function(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": {"type": "object", "properties": {}} | (tool.parameters or {}),
    }


def _written_out(message: Message) -> Message:
    if message.role == "tool":
        text = f"<tool_response>\n{message.content}\n</tool_response>"
        return Message("user", text)
    if not message.tool_calls:
        return message
    calls = (f"<tool_call>\n{_json(_plain(call))}\n</tool_call>" for call in message.tool_calls)
    content = "\n".join([*([message.content] if message.content else []), *calls])
    return attrs.evolve(message, content=content, tool_calls=())


def _plain(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"name": function["name"], "arguments": function.get("arguments", {})}


def _paired(messages: Sequence[Message], *, short_ids: bool) -> list[Message]:
    """Results with the names of the functions that they come from, and ids where they must be."""
    turns, waiting = list[Message](), list[tuple[str | None, str]]()
    for number, message in enumerate(messages):
        if message.tool_calls:
            calls = [
                _with_short_id(call, f"call{number:03}{at:02}") if short_ids else call
                for at, call in enumerate(message.tool_calls)
            ]
            waiting = [(call.get("id"), call["function"]["name"]) for call in calls]
            message = attrs.evolve(message, tool_calls=tuple(calls))
        elif message.role == "tool":
            message = _result(message, waiting, short_ids=short_ids)
        turns.append(message)
    return turns


def _result(message: Message, waiting: list[tuple[str | None, str]], *, short_ids: bool) -> Message:
    """A result answers the call of its id, or else the first that waits."""
    own = message.tool_call_id
    wanted = _shortened(own) if short_ids and own is not None else own
    found = next((call for call in waiting if call[0] == wanted), None)
    if found is None and own is None:
        found = next(iter(waiting), None)
    if found is None:
        return attrs.evolve(message, tool_call_id=wanted)
    waiting.remove(found)
    call_id, name = found
    return attrs.evolve(message, tool_call_id=call_id, name=message.name or name)


def _with_short_id(call: dict[str, Any], otherwise: str) -> dict[str, Any]:
    return {**call, "id": _shortened(call.get("id") or otherwise)}


def _shortened(call_id: str) -> str:
    """The id itself where it is short already, so that doing it twice changes nothing."""
    if SHORT_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def _one_call_each(turns: Sequence[Message]) -> list[Message]:
    """Each call in a turn of its own, followed by its results."""
    out, rest = list[Message](), list(turns)
    while rest:
        turn = rest.pop(0)
        if len(turn.tool_calls) < 2:
            out.append(turn)
            continue
        results = list[Message]()
        while rest and rest[0].role == "tool":
            results.append(rest.pop(0))
        out += _parted(turn, results)
    return out


def _parted(turn: Message, results: list[Message]) -> Iterator[Message]:
    """What was said and thought goes with the first call, results without a call with the last."""
    said = turn
    for at, call in enumerate(turn.tool_calls):
        yield attrs.evolve(said, tool_calls=(call,))
        said = attrs.evolve(turn, content="", reasoning=None)
        last = at + 1 == len(turn.tool_calls)
        own = results[:] if last else _answers(call, results)
        results = [result for result in results if result not in own]
        yield from own


def _answers(call: dict[str, Any], results: Sequence[Message]) -> list[Message]:
    call_id = call.get("id")
    if call_id is None:
        return list(results[:1])
    return [result for result in results if result.tool_call_id == call_id]


def _with_arguments(call: dict[str, Any], traits: TemplateTraits) -> dict[str, Any]:
    arguments = call["function"].get("arguments", {})
    if traits.arguments == "text" and not isinstance(arguments, str):
        arguments = _json(arguments)
    elif traits.arguments == "object" and not isinstance(arguments, dict):
        # What is no object can only be shown inside one.
        arguments = {"arguments": arguments}
    return {**call, "function": {**call["function"], "arguments": arguments}}


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
