"""Tools, calls and results as a chat template takes them. Pure: messages in, messages out.

Some templates know nothing of tools. For those they are described in the system text, and the
calls and results of earlier turns are written out, in the form that the Hermes models made common.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import msgspec

from headrace.actors.prompting import merge_turns
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
    # Neighbours first become one turn, so that their calls come apart where they must.
    turns, rest = list[Message](), deque(merge_turns(messages))
    # The function that each id so far stands for.
    names = dict[str, str]()
    while rest:
        turn = rest.popleft()
        if turn.tool_calls:
            results = list(_leading_results(rest))
            turns += _round(turn, results, names, traits, number=len(turns))
        else:
            turns.append(_result(turn, None, names, traits) if turn.role == "tool" else turn)
    return tuple(_answered(turns, traits.said_after_results))


def _answered(turns: Sequence[Message], said: str | None) -> Iterator[Message]:
    """With a word of the assistant wherever the user speaks after a result, if one is needed."""
    last = None
    for turn in turns:
        if said is not None and last == "tool" and turn.role == "user":
            yield Message("assistant", said)
        yield turn
        last = turn.role


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


def _leading_results(rest: deque[Message]) -> Iterator[Message]:
    while rest and rest[0].role == "tool":
        yield rest.popleft()


def _round(
    turn: Message,
    results: Sequence[Message],
    names: dict[str, str],
    traits: TemplateTraits,
    number: int,
) -> Iterator[Message]:
    """A turn with calls and the results that follow it, in one turn or in one for each call."""
    calls = [
        _with_arguments(_with_id(call, f"call{number:03}{at:02}", traits), traits)
        for at, call in enumerate(turn.tool_calls)
    ]
    names |= {call["id"]: call["function"]["name"] for call in calls if call.get("id")}
    owners = _owners(calls, [_id_for(result.tool_call_id, traits) for result in results])
    results = [
        _result(result, None if owner is None else calls[owner], names, traits)
        for result, owner in zip(results, owners, strict=True)
    ]
    if traits.several_calls:
        yield attrs.evolve(turn, tool_calls=tuple(calls))
        yield from results
        return
    said = turn
    for at, call in enumerate(calls):
        yield attrs.evolve(said, tool_calls=(call,))
        said = attrs.evolve(turn, content="", reasoning=None)
        # What answers none of them goes with the last.
        own = (at, None) if at + 1 == len(calls) else (at,)
        yield from (result for result, by in zip(results, owners, strict=True) if by in own)


def _owners(calls: Sequence[dict[str, Any]], ids: Sequence[str | None]) -> list[int | None]:
    """Which call each result answers: that of its id; without one, the next that is left."""
    places = {call["id"]: at for at, call in enumerate(calls) if call.get("id")}
    taken = {places[call_id] for call_id in ids if call_id in places}
    left = (at for at in range(len(calls)) if at not in taken)
    return [next(left, None) if call_id is None else places.get(call_id) for call_id in ids]


def _result(
    message: Message, call: dict[str, Any] | None, names: dict[str, str], traits: TemplateTraits
) -> Message:
    """Some templates need the name of the function that a result comes from, or its id."""
    call_id = _id_for(message.tool_call_id, traits)
    name = names.get(call_id) if call_id is not None else None
    if call is not None:
        call_id, name = call.get("id"), call["function"]["name"]
    return attrs.evolve(message, tool_call_id=call_id, name=message.name or name)


def _with_id(call: dict[str, Any], otherwise: str, traits: TemplateTraits) -> dict[str, Any]:
    if not traits.short_ids:
        return call
    return {**call, "id": _shortened(call.get("id") or otherwise)}


def _id_for(call_id: str | None, traits: TemplateTraits) -> str | None:
    return _shortened(call_id) if traits.short_ids and call_id is not None else call_id


def _shortened(call_id: str) -> str:
    """The id itself where it is short already, so that doing it twice changes nothing."""
    if SHORT_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]


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
