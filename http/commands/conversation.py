"""What a chat in a terminal remembers, and the commands that change it. Pure."""

from __future__ import annotations

from typing import Any

import attrs

HELP = """\
/new          begin a new conversation
/model NAME   let another model answer
/system TEXT  set what the model is told beforehand; without TEXT, nothing
/quit         leave, as Ctrl-D does
Ctrl-C cancels an answer; what it has said so far is kept."""


@attrs.define(kw_only=True)
class Conversation:
    """`fields` are sampling fields of the protocol that each request gets."""

    model: str | None = None
    system: str | None = None
    fields: dict[str, Any] = attrs.field(factory=dict)
    turns: list[dict[str, str]] = attrs.field(factory=list)

    def body(self, question: str) -> dict[str, Any]:
        """The request that asks `question` after all that was said."""
        told = [{"role": "system", "content": self.system}] if self.system else []
        messages = [*told, *self.turns, {"role": "user", "content": question}]
        named = {} if self.model is None else {"model": self.model}
        return {**named, **self.fields, "messages": messages, "stream": True}

    def keep(self, question: str, answer: str) -> None:
        """Remember a turn. One without an answer is as if it had not been asked."""
        if answer:
            self.turns.append({"role": "user", "content": question})
            self.turns.append({"role": "assistant", "content": answer})

    def obey(self, line: str) -> str | None:
        """Carry out a line that begins with a slash; what to say, or None to leave."""
        command, _, rest = line.partition(" ")
        rest = rest.strip()
        match command:
            case "/quit":
                return None
            case "/new":
                self.turns.clear()
                return "A new conversation begins."
            case "/system":
                self.system = rest or None
                return "The model is told so." if rest else "The model is told nothing beforehand."
            case "/model" if rest:
                self.model = rest
                return f"{rest} answers from now on."
            case "/model":
                return f"{self.model or 'the current model of the server'} answers."
            case _:
                return HELP
