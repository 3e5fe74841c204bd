"""What a chat template makes of tools, calls and results, found out by trying it.

A template is a program and says nothing of what it takes, so each is given a short conversation
in the forms that published templates ask for, the usual one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Protocol

import attrs
import msgspec

from headrace.runtime.contracts import Message
from headrace.runtime.errors import RequestError
from headrace.runtime.ports import TemplateTraits

NAME, VALUE, RESULT = "headrace_probe", "headrace-value", "headrace-result"
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Probe.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "description": "A place."}},
            "required": ["place"],
        },
    },
}
IDS = ("call_0123456789abcdef01234567", "call_123456789abcdef012345678")
SHORT_IDS = ("a00000000", "a00000001")
# A mapping printed as Python would, and JSON text encoded once more.
MISPRINTED = ("{'place'", '{\\"place')


class Render(Protocol):
    """Renders turns as they are. Raises `RequestError` where the template refuses."""

    def __call__(
        self, turns: Sequence[Message], *, tools: Sequence[dict[str, Any]] = ()
    ) -> str: ...


QUESTION, MORE = Message("user", "Hello"), Message("user", "headrace-more")
# What an assistant may say who has nothing to say.
ANSWERS = ("", "OK.")
NO_SYSTEM = Message("system", "")


def sample(render: Render) -> str:
    """Prompts with a tool, as far as the template does not refuse them."""
    conversations = ((QUESTION,), (NO_SYSTEM, QUESTION))
    return "\n".join(_rendered(render, turns, [TOOL]) for turns in conversations)


def tried(render: Render) -> TemplateTraits:
    """The traits of a template; those of one that knows of no tools where it shows none."""
    anywhere = NAME in _rendered(render, (QUESTION,), [TOOL])
    beside = not anywhere and NAME in _rendered(render, (NO_SYSTEM, QUESTION), [TOOL])
    found = TemplateTraits(anywhere or beside, beside)
    for short_ids, as_text, several in product((False, True), (False, True), (True, False)):
        traits = attrs.evolve(
            found,
            calls=True,
            several_calls=several,
            arguments="text" if as_text else "object",
            short_ids=short_ids,
        )
        if _takes(render, traits):
            traits = traits if as_text else _with_text(render, traits)
            return attrs.evolve(traits, said_after_results=_said_after_results(render, traits))
    return found


def _takes(render: Render, traits: TemplateTraits) -> bool:
    count = 2 if traits.several_calls else 1
    values = [f"{VALUE}-{number}" for number in range(count)]
    text = _history(render, traits, [{"place": value} for value in values])
    shown = [*values, *(f"{RESULT}-{number}" for number in range(count)), NAME]
    return all(part in text for part in shown) and not any(part in text for part in MISPRINTED)


def _with_text(render: Render, traits: TemplateTraits) -> TemplateTraits:
    """The same with arguments in either form, if text that is no JSON is shown as well."""
    either = attrs.evolve(traits, several_calls=False, arguments="either")
    if VALUE not in _history(render, either, [VALUE]):
        return traits
    return attrs.evolve(traits, arguments="either")


def _said_after_results(render: Render, traits: TemplateTraits) -> str | None:
    """Some want the assistant between a result and the user, and some of those not without a
    word."""
    for answer in (None, *ANSWERS):
        said = () if answer is None else (Message("assistant", answer),)
        if MORE.content in _history(render, traits, [{"place": VALUE}], (*said, MORE)):
            return answer
    return None


def _history(
    render: Render,
    traits: TemplateTraits,
    arguments: Sequence[Any],
    more: Sequence[Message] = (),
) -> str:
    """A user's question, calls with these arguments, their results, and more turns."""
    ids = SHORT_IDS if traits.short_ids else IDS
    if traits.arguments == "text":
        arguments = [msgspec.json.encode(value).decode() for value in arguments]
    calls = [
        {"id": call_id, "type": "function", "function": {"name": NAME, "arguments": value}}
        for call_id, value in zip(ids, arguments, strict=False)
    ]
    results = [
        Message("tool", f"{RESULT}-{number}", tool_call_id=ids[number], name=NAME)
        for number in range(len(calls))
    ]
    turns = (QUESTION, Message("assistant", "", tool_calls=tuple(calls)), *results, *more)
    if traits.tools_beside_system:
        turns = (NO_SYSTEM, *turns)
    return _rendered(render, turns, [TOOL] if traits.tools else [])


def _rendered(render: Render, turns: Sequence[Message], tools: Sequence[dict[str, Any]]) -> str:
    try:
        return render(turns, tools=tools)
    except RequestError:
        return ""
