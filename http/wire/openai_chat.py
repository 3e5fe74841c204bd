"""POST /v1/chat/completions: from its body to a request, and from events to its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.asking import Stamp
from headrace.http.wire.chat_fields import check_fields
from headrace.http.wire.chat_stream import ChatStream
from headrace.http.wire.fields import Fields
from headrace.http.wire.messages import continues_final, read_messages
from headrace.http.wire.openai_answer import Answer, Head
from headrace.http.wire.sampling import read_sampling
from headrace.http.wire.stops import read_stops
from headrace.runtime.contracts import Event, InferenceRequest, Prompt


@attrs.frozen
class Chat:
    """One chat completion that was asked for."""

    request: InferenceRequest
    response_id: str
    created: int
    include_usage: bool

    def stream(self) -> ChatStream:
        head = Head(self.response_id, "chat.completion.chunk", self.created)
        return ChatStream(head, include_usage=self.include_usage)

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        answer = Answer.of(events)
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        head = Head(self.response_id, "chat.completion", self.created)
        return answer.body(head, {"message": message})


def parse(body: dict[str, Any], stamp: Stamp) -> Chat:
    """Read a body. Raises `RequestError`, which names the field, for all that cannot be done."""
    fields = Fields(body)
    stream = fields.boolean("stream") or False
    include_usage = _include_usage(fields)
    check_fields(fields)
    sampling, given = read_sampling(fields, fresh_seed=stamp.seed)
    request = InferenceRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        prompt=_prompt(fields),
        sampling=sampling,
        given=given,
        max_tokens=_cap(fields),
        stop=read_stops(fields, "stop"),
        stream=stream,
        route=stamp.route,
    )
    return Chat(request, f"chatcmpl-{stamp.token}", stamp.created, stream and include_usage)


def _prompt(fields: Fields) -> Prompt:
    messages = read_messages(fields.required("messages"))
    continue_final = continues_final(messages, fields.boolean("continue_final_message"))
    verbosity = fields.text("verbosity")
    return Prompt(
        messages=messages,
        continue_final=continue_final,
        template_args={} if verbosity is None else {"verbosity": verbosity},
    )


def _cap(fields: Fields) -> int | None:
    """The newer name wins; both are checked."""
    newer = fields.integer("max_completion_tokens", least=1)
    older = fields.integer("max_tokens", least=1)
    return older if newer is None else newer


def _include_usage(fields: Fields) -> bool:
    options = fields.object("stream_options")
    if options is None:
        return False
    options.boolean("include_obfuscation")
    options.boolean("continuous_usage_stats")
    return options.boolean("include_usage") or False
