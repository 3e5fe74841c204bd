"""POST /v1/responses: from its body to a request, and from events to its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from headrace.http.wire.asking import Stamp
from headrace.http.wire.fields import Fields, missing, wrong_value
from headrace.http.wire.responses_fields import (
    CHOICES,
    REFUSED,
    STREAM_OPTIONS,
    WITHOUT_EFFECT,
    Reasoning,
    read_alternatives,
    read_cap,
    read_form,
    read_reasoning,
    text_config,
)
from headrace.http.wire.responses_items import (
    droppable,
    listed,
    numbered,
    read_items,
    references,
    resolved,
)
from headrace.http.wire.responses_tools import Tools, echoed, read_tools
from headrace.http.wire.responses_writer import Frame, ResponseWriter
from headrace.http.wire.rules import read_all
from headrace.http.wire.sampling import read_sampling
from headrace.http.wire.shared_fields import AFFINITY, check, check_adapter
from headrace.http.wire.stops import read_stops
from headrace.http.wire.turns import continues_final
from headrace.runtime.contracts import (
    Event,
    Failed,
    InferenceRequest,
    Message,
    Prompt,
    Sampling,
    Warning_,
)
from headrace.runtime.errors import RequestError

ID_DIGITS = 24
PREFIX = "resp_"


@attrs.frozen
class Wanted:
    """What of earlier responses a body refers to."""

    previous: str | None
    items: tuple[str, ...]


@attrs.frozen
class Known:
    """What the edge knows besides the body: the items that `Wanted` named, the sampling fields
    that the model's makers advise, and a clock in Unix seconds."""

    conversation: tuple[dict[str, Any], ...] = ()
    items: Mapping[str, dict[str, Any]] = attrs.field(factory=dict)
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    clock: Callable[[], float] = float


@attrs.frozen
class AskedResponse:
    """One response that was asked for. `input` are its own items; `conversation` are all."""

    request: InferenceRequest
    made: Frame
    input: tuple[dict[str, Any], ...]
    conversation: tuple[dict[str, Any], ...]
    instructions: tuple[Message, ...]
    store: bool
    background: bool
    truncates: bool

    @property
    def requests(self) -> tuple[InferenceRequest, ...]:
        return (self.request,)

    @property
    def response_id(self) -> str:
        return str(self.made.fixed["id"])

    @property
    def prompt_field(self) -> str:
        return "input"

    def stream(self) -> ResponseWriter:
        return ResponseWriter(self.made)

    def complete(self, events: Iterable[Event]) -> dict[str, Any]:
        writer = self.stream()
        for event in events:
            writer.feed(event)
            if isinstance(event, Failed):
                raise RequestError.of(event.error)
        return writer.response

    # ---- making room -----------------------------------------------------------------------

    @property
    def spare(self) -> int:
        """How many items can be left out to make room."""
        return len(droppable(list(self.conversation)))

    def without(self, count: int) -> AskedResponse:
        """The same without so many of its oldest items, which the client is told."""
        if not count:
            return self
        left_out = set(droppable(list(self.conversation))[:count])
        kept = [item for i, item in enumerate(self.conversation) if i not in left_out]
        messages = (*self.instructions, *read_items(kept, "input"))
        text = f"{count} of the oldest items were left out: they did not fit"
        warning = Warning_("input_truncated", text, "input")
        request = attrs.evolve(
            self.request,
            prompt=attrs.evolve(self.request.prompt, messages=messages),
            warnings=(*self.request.warnings, warning),
        )
        return attrs.evolve(self, request=request)


def wanted(body: dict[str, Any]) -> Wanted:
    """What must be looked up before the body can be read. Raises `RequestError`."""
    fields = Fields(body)
    value = fields.value("input")
    items = [] if value is None else listed(value, fields.path("input"))
    return Wanted(fields.text("previous_response_id"), tuple(references(items)))


def parse(body: dict[str, Any], stamp: Stamp, known: Known) -> AskedResponse:
    """Read a body. Raises `RequestError`, which names the field, for all that cannot be done."""
    fields = Fields(body)
    check(fields, AFFINITY, WITHOUT_EFFECT, REFUSED)
    check_adapter(fields)
    options = fields.object("stream_options")
    if options is not None:
        read_all(options, STREAM_OPTIONS)
    given = read_all(fields, CHOICES)
    if given.get("background") and given.get("store") is False:
        raise wrong_value(fields.path("background"), "needs store not to be false")
    tools = read_tools(fields)
    reasoning = read_reasoning(fields)
    own = _own_items(fields, known, stamp.token)
    conversation = (*known.conversation, *own)
    instructions = given.get("instructions")
    spoken = () if instructions is None else (Message("system", instructions),)
    request = _request(
        fields, stamp, tools, reasoning, (*spoken, *read_items(conversation, fields.path("input")))
    )
    made = Frame(
        stamp.token,
        _fixed(fields, stamp, given, reasoning, _used(request, known.defaults)),
        tools.offered,
        summary=reasoning.summary is not None,
        clock=known.clock,
    )
    return AskedResponse(
        request,
        made,
        own,
        conversation,
        spoken,
        store=given.get("store") is not False,
        background=bool(given.get("background")),
        truncates=given.get("truncation") == "auto",
    )


def _own_items(fields: Fields, known: Known, token: str) -> tuple[dict[str, Any], ...]:
    value, path = fields.value("input"), fields.path("input")
    if value is None:
        if fields.text("previous_response_id") is None:
            raise missing(path)
        return ()
    items = listed(value, path)
    # Read once for its errors, so that they name the items as the client sent them.
    whole = resolved(items, known.items)
    read_items(whole, path)
    return tuple(numbered(whole, token))


def _request(
    fields: Fields,
    stamp: Stamp,
    tools: Tools,
    reasoning: Reasoning,
    messages: tuple[Message, ...],
) -> InferenceRequest:
    sampling, given = read_sampling(fields, fresh_seed=stamp.seed)
    continues = continues_final(messages, fields.boolean("continue_final_message"))
    return InferenceRequest(
        id=stamp.request_id,
        model=fields.text("model") or None,
        prompt=Prompt(
            messages=messages,
            continue_final=continues,
            template_args=reasoning.template_args,
        ),
        sampling=sampling,
        given=given,
        max_tokens=read_cap(fields),
        stop=read_stops(fields, "stop"),
        stream=fields.boolean("stream") or False,
        route=stamp.route,
        logprobs=read_alternatives(fields),
        tools=tools.use,
        thinking=reasoning.thinking,
        constraint=read_form(fields),
        warnings=tools.warnings,
    )


def _used(request: InferenceRequest, defaults: Mapping[str, Any]) -> Sampling:
    """How tokens will be drawn: as the client said, else as the model's makers advise."""
    advised = {name: value for name, value in defaults.items() if name not in request.given}
    return attrs.evolve(request.sampling, **advised)


def _fixed(
    fields: Fields, stamp: Stamp, given: dict[str, Any], reasoning: Reasoning, used: Sampling
) -> dict[str, Any]:
    """The members of the response that are known from the beginning."""
    value = fields.value
    parallel = fields.boolean("parallel_tool_calls")
    return {
        "id": f"{PREFIX}{stamp.token[:ID_DIGITS]}",
        "object": "response",
        "created_at": stamp.created,
        "background": bool(given.get("background")),
        "instructions": given.get("instructions"),
        "max_output_tokens": read_cap(fields),
        "max_tool_calls": value("max_tool_calls"),
        "metadata": value("metadata") or {},
        "model": value("model"),
        "parallel_tool_calls": parallel is not False,
        "presence_penalty": used.presence_penalty,
        "frequency_penalty": used.frequency_penalty,
        "previous_response_id": given.get("previous_response_id"),
        "prompt_cache_key": value("prompt_cache_key"),
        "reasoning": {"effort": reasoning.effort, "summary": reasoning.summary},
        "safety_identifier": value("safety_identifier"),
        "service_tier": "default",
        "store": given.get("store") is not False,
        "temperature": used.temperature,
        "text": text_config({"text": value("text")}),
        "tool_choice": value("tool_choice") or "auto",
        "tools": echoed(value("tools") or []),
        "top_logprobs": value("top_logprobs") or 0,
        "top_p": used.top_p,
        "truncation": given.get("truncation") or "disabled",
        "user": value("user"),
    }
