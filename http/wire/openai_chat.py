"""POST /v1/chat/completions: from its body to a request, and from events to its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.answer import Answer, ChoiceAnswer
from headrace.http.wire.asking import Stamp
from headrace.http.wire.call_ids import CallIds
from headrace.http.wire.chat_stream import ChatStream
from headrace.http.wire.constraints import read_constraint
from headrace.http.wire.fields import Fields, wrong_value
from headrace.http.wire.messages import read_messages
from headrace.http.wire.openai_answer import Chunks, Head, finish_members, usage_object
from headrace.http.wire.openai_fields import (
    CHAT_REFUSED,
    CHAT_WITHOUT_EFFECT,
    read_cap,
    read_choices,
    read_include_usage,
)
from headrace.http.wire.openai_logprobs import chat_scores
from headrace.http.wire.openai_tools import read_tool_use
from headrace.http.wire.sampling import read_sampling
from headrace.http.wire.shared_fields import AFFINITY, check, check_adapter
from headrace.http.wire.stops import read_stops
from headrace.http.wire.thinking import TemplateArgs, read_thinking
from headrace.http.wire.turns import continues_final
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Event, InferenceRequest, Prompt

MOST_ALTERNATIVES = 20


@attrs.frozen
class Chat:
    """One chat completion that was asked for."""

    request: InferenceRequest
    response_id: str
    created: int
    include_usage: bool
    call_ids: CallIds

    @property
    def requests(self) -> tuple[InferenceRequest, ...]:
        return (self.request,)

    @property
    def prompt_field(self) -> str:
        return "messages"

    def stream(self) -> ChatStream:
        head = Head(self.response_id, "chat.completion.chunk", self.created)
        chunks = Chunks(head, include_usage=self.include_usage)
        return ChatStream(chunks, self.call_ids, self.request.n)

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        answer = Answer.of(events, self.request.n)
        head = Head(self.response_id, "chat.completion", self.created)
        return {
            **head.members(answer.accepted),
            "choices": [self._choice(choice) for choice in answer.choices],
            "usage": usage_object(answer.finished.usage),
            **warning_member(answer.warnings),
        }

    def _choice(self, choice: ChoiceAnswer) -> dict[str, Any]:
        asked = self.request.logprobs is not None
        return {
            "index": choice.index,
            "message": self._message(choice),
            "logprobs": chat_scores(choice.scored) if asked else None,
            **finish_members(choice.ended),
        }

    def _message(self, choice: ChoiceAnswer) -> dict[str, Any]:
        calls = [
            {
                "id": self.call_ids.of(choice.index, call.call),
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for call in choice.calls
        ]
        text, reasoning = choice.text, choice.reasoning
        content = None if calls and not text else text
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if reasoning:
            message |= {"reasoning_content": reasoning, "reasoning": reasoning}
        return message | ({"tool_calls": calls} if calls else {})


def parse(body: dict[str, Any], stamp: Stamp) -> Chat:
    """Read a body. Raises `RequestError`, which names the field, for all that cannot be done."""
    fields = Fields(body)
    stream = fields.boolean("stream") or False
    include_usage = read_include_usage(fields)
    check(fields, AFFINITY, CHAT_WITHOUT_EFFECT, CHAT_REFUSED)
    check_adapter(fields)
    sampling, given = read_sampling(fields, fresh_seed=stamp.seed)
    thinking, template_args = read_thinking(fields)
    request = InferenceRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        prompt=_prompt(fields, template_args),
        sampling=sampling,
        given=given,
        max_tokens=read_cap(fields, least=1),
        stop=read_stops(fields, "stop"),
        stream=stream,
        route=stamp.route,
        n=read_choices(fields, stamp.most_choices),
        logprobs=_alternatives(fields),
        tools=read_tool_use(fields),
        thinking=thinking,
        constraint=read_constraint(fields),
    )
    return Chat(
        request,
        f"chatcmpl-{stamp.token}",
        stamp.created,
        stream and include_usage,
        CallIds(stamp.token),
    )


def _prompt(fields: Fields, template_args: TemplateArgs) -> Prompt:
    messages = read_messages(fields.required("messages"))
    continue_final = continues_final(messages, fields.boolean("continue_final_message"))
    verbosity = fields.text("verbosity")
    if verbosity is not None:
        template_args = {"verbosity": verbosity} | template_args
    return Prompt(messages=messages, continue_final=continue_final, template_args=template_args)


def _alternatives(fields: Fields) -> int | None:
    """How many alternatives to report for each token; None without log-probabilities."""
    wanted = fields.boolean("logprobs") or False
    alternatives = fields.integer("top_logprobs", 0, MOST_ALTERNATIVES) or 0
    if alternatives and not wanted:
        raise wrong_value(fields.path("top_logprobs"), "needs logprobs to be true")
    return alternatives if wanted else None
