"""POST /v1/messages: from its body to a request, and from events to its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from headrace.http.wire.answer import Answer
from headrace.http.wire.anthropic_answer import MessageHead, usage_object
from headrace.http.wire.anthropic_answer import text as text_block
from headrace.http.wire.anthropic_blocks import read_conversation
from headrace.http.wire.anthropic_fields import REFUSED, WITHOUT_EFFECT, read_form, read_thoughts
from headrace.http.wire.anthropic_stream import MessageStream
from headrace.http.wire.anthropic_tools import read_tool_use
from headrace.http.wire.asking import Stamp
from headrace.http.wire.call_ids import CallIds
from headrace.http.wire.fields import Fields, as_array
from headrace.http.wire.sampling import read_sampling
from headrace.http.wire.shared_fields import AFFINITY, check, check_adapter
from headrace.http.wire.stops import read_stops
from headrace.http.wire.turns import continues_final
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Event, InferenceRequest, Prompt

ID_DIGITS = 24
# What is counted needs no cap, and its answer is never drawn.
UNCAPPED = 1


@attrs.frozen
class AskedMessage:
    """One message that was asked for."""

    request: InferenceRequest
    head: MessageHead

    @property
    def requests(self) -> tuple[InferenceRequest, ...]:
        return (self.request,)

    @property
    def response_id(self) -> str:
        return self.head.id

    @property
    def prompt_field(self) -> str:
        return "messages"

    def stream(self) -> MessageStream:
        return MessageStream(self.head, self.request.id, speaks=self._speaks)

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        answer = Answer.of(events, 1)
        (choice,) = answer.choices
        blocks = [self.head.whole(part) for part in choice.parts]
        usage = answer.finished.usage
        return {
            **self.head.members(answer.accepted.model),
            "content": blocks or ([text_block("")] if self._speaks else []),
            **self.head.stop(choice.ended, answer.accepted.max_tokens, usage),
            "usage": usage_object(usage),
            **warning_member(answer.warnings),
        }

    @property
    def _speaks(self) -> bool:
        return self.request.max_tokens != 0


def parse(body: dict[str, Any], stamp: Stamp) -> AskedMessage:
    """Read a body. Raises `RequestError`, which names the field, for all that cannot be done."""
    fields = Fields(body)
    fields.required("max_tokens")
    return _asked(fields, stamp, fields.count("max_tokens") or 0)


def parse_counted(body: dict[str, Any], stamp: Stamp) -> AskedMessage:
    """Read a body whose prompt is to be counted and no more."""
    return _asked(Fields(body), stamp, UNCAPPED)


def _asked(fields: Fields, stamp: Stamp, cap: int) -> AskedMessage:
    check(fields, AFFINITY, WITHOUT_EFFECT, REFUSED)
    check_adapter(fields)
    sampling, given = read_sampling(fields, fresh_seed=stamp.seed)
    thoughts = read_thoughts(fields)
    use, dropped_tools = read_tool_use(fields)
    conversation = read_conversation(fields)
    messages = conversation.messages
    request = InferenceRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        prompt=Prompt(
            messages=messages,
            continue_final=continues_final(messages, fields.boolean("continue_final_message")),
            template_args=thoughts.template_args,
        ),
        sampling=sampling,
        given=given,
        max_tokens=cap,
        stop=_stops(fields),
        stream=fields.boolean("stream") or False,
        route=stamp.route,
        tools=use,
        thinking=thoughts.thinking,
        constraint=read_form(fields),
        warnings=(*dropped_tools, *conversation.warnings),
    )
    call_ids = CallIds(stamp.token, "toolu_")
    head = MessageHead(f"msg_{stamp.token[:ID_DIGITS]}", cap, call_ids, thoughts.omitted)
    return AskedMessage(request, head)


def _stops(fields: Fields) -> tuple[str, ...]:
    """An array: a single string is not taken here."""
    fields.read("stop_sequences", as_array)
    return read_stops(fields, "stop_sequences")
