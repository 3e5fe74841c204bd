"""A model's chat template, and what becomes of it when it refuses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import jinja2
from transformers import PreTrainedTokenizerBase

from headrace.actors.engine import traits
from headrace.actors.prompting import fold_system, merge_turns
from headrace.runtime.contracts import Message
from headrace.runtime.errors import Code, RequestError

# Written where an open assistant message ends, so that the text after it can be cut off. Neither
# JSON nor HTML escaping changes it, and no template trims what stands before it.
OPEN_END = "HEADRACE-OPEN-END"
REASON_CHARACTERS = 200
# A client must not set these: they belong to the renderer, not to the template.
RENDERER_ARGUMENTS = frozenset(
    {"messages", *inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters}
) - {"documents", "kwargs"}

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


class ChatTemplate:
    """`apply` renders a conversation into text, as a tokenizer's `apply_chat_template` does."""

    def __init__(self, apply: Callable[..., str]) -> None:
        self._apply = apply
        self._shows_system = self._tried()
        self.traits = traits.tried(self._rendered)

    def render(
        self,
        messages: Sequence[Message],
        *,
        continue_final: bool,
        args: dict[str, Any],
        tools: Sequence[dict[str, Any]] = (),
    ) -> str:
        """The prompt's text. It ends with the beginning of the assistant's answer, or within its
        last message if that is to be continued. Raises `RequestError` (template_error,
        invalid_value)."""
        for name in sorted(RENDERER_ARGUMENTS & args.keys()):
            raise _refused(f"chat_template_kwargs.{name}", "is not an argument of the template")
        turns = merge_turns(messages) if self._shows_system else fold_system(messages)
        if not continue_final:
            return self._rendered(turns, args=args, tools=tools)
        if not turns or turns[-1].role != "assistant" or turns[-1].tool_calls:
            reason = "needs a last assistant message without tool calls"
            raise _refused("continue_final_message", reason)
        last = attrs.evolve(turns[-1], content=turns[-1].content + OPEN_END)
        text = self._rendered((*turns[:-1], last), args=args, tools=tools, opens_answer=False)
        shown, mark, _ = text.rpartition(OPEN_END)
        if not mark:
            raise _template_error("it leaves out the assistant message to be continued")
        return shown

    def sample(self) -> str:
        """What it renders of tools, "" if it refuses them."""
        return traits.sample(self._rendered)

    def _tried(self) -> bool:
        """Whether a system message is rendered; some templates raise, others leave it out."""
        turns = (Message("system", OPEN_END), Message("user", "Hello"))
        try:
            return OPEN_END in self._rendered(turns)
        except RequestError:
            return False

    def _rendered(
        self,
        turns: Sequence[Message],
        *,
        args: Mapping[str, Any] = NO_ARGUMENTS,
        tools: Sequence[dict[str, Any]] = (),
        opens_answer: bool = True,
    ) -> str:
        conversation = [_for_template(turn) for turn in turns]
        given = {"tools": list(tools), **args} if tools else args
        try:
            text = self._apply(conversation, add_generation_prompt=opens_answer, **given)
        except jinja2.TemplateError as error:
            raise _template_error(error.message or "") from error
        except Exception as error:  # a template is a program, and may stumble over anything
            raise _template_error("it could not be rendered") from error
        if not text:
            raise _template_error("it renders nothing")
        return text


def _for_template(message: Message) -> dict[str, Any]:
    """The shape that templates read; what is absent is left out."""
    optional = {
        "reasoning_content": message.reasoning,
        "tool_calls": list(message.tool_calls) or None,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    given = {key: value for key, value in optional.items() if value is not None}
    return {"role": message.role, "content": message.content, **given}


def _template_error(reason: str) -> RequestError:
    first_line = next(iter(reason.strip().splitlines()), "no reason given")
    text = f"The model's chat template refuses these messages: {first_line[:REASON_CHARACTERS]}"
    return RequestError(Code.TEMPLATE_ERROR, text, param="messages")


def _refused(param: str, reason: str) -> RequestError:
    return RequestError(Code.INVALID_VALUE, f"{param} {reason}.", param=param)
