"""The turns that a chat template gets, out of the messages that a client sent.

Wire contract 3.1, rules 2 and 3. Pure: messages in, messages out, no text is lost and no order
changed, except that system text moves to the front.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from headrace.runtime.contracts import Message

# Only these are joined with a neighbour of the same role.
JOINED = ("user", "assistant")
BLANK_LINE = "\n\n"


def merge_turns(messages: Sequence[Message]) -> tuple[Message, ...]:
    """One leading system message if there is system text, then turns without equal neighbours.

    Merging what is merged already changes nothing. `tool` messages stay as they are.
    """
    system = [message for message in messages if message.role == "system"]
    turns: list[Message] = [_joined(system)] if system else []
    for message in messages:
        if message.role == "system":
            continue
        if turns and message.role in JOINED and turns[-1].role == message.role:
            turns[-1] = _joined([turns[-1], message])
        else:
            turns.append(message)
    return tuple(turns)


def fold_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Merged turns for a template without a system role: its text opens the first user turn.

    Without a user turn it becomes one, at the front.
    """
    turns = merge_turns(messages)
    if not turns or turns[0].role != "system":
        return turns
    system, rest = turns[0], turns[1:]
    first = next((at for at, turn in enumerate(rest) if turn.role == "user"), None)
    if first is None:
        return (attrs.evolve(system, role="user"), *rest)
    content = _text(system.content, rest[first].content)
    return (*rest[:first], attrs.evolve(rest[first], content=content), *rest[first + 1 :])


def _joined(messages: Sequence[Message]) -> Message:
    if len(messages) == 1:
        return messages[0]
    reasoning = [message.reasoning for message in messages if message.reasoning is not None]
    names = {message.name for message in messages}
    return Message(
        role=messages[0].role,
        content=_text(*(message.content for message in messages)),
        reasoning=_text(*reasoning) if reasoning else None,
        tool_calls=tuple(call for message in messages for call in message.tool_calls),
        name=names.pop() if len(names) == 1 else None,
    )


def _text(*parts: str) -> str:
    """Empty parts leave no blank line behind; a prompt must not begin with one nobody wrote."""
    return BLANK_LINE.join(part for part in parts if part)
