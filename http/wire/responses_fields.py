"""The fields of Responses that are neither items nor tools (wire contract 7.1).

Nothing a client asks for is dropped in silence (wire contract 0): a known field is honoured
somewhere, or it has its line here as accepted without effect, or as refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from headrace.http.wire.constraints import FORMATS, guided, named_schema, sole
from headrace.http.wire.fields import Fields, as_array, as_choice
from headrace.http.wire.rules import BOOLEAN, OBJECT, TEXT, Rule, choice, count, only, read_all
from headrace.http.wire.thinking import EFFORTS, TEMPLATE_ARGS, TemplateArgs
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import Thinking

LOGPROBS = "message.output_text.logprobs"
INCLUDES = (
    LOGPROBS,
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
MOST_ALTERNATIVES = 20
TRUNCATIONS = ("auto", "disabled")

# Accepted without effect; the type is checked all the same.
WITHOUT_EFFECT: dict[str, Rule] = {
    "background_options": OBJECT,
    "max_tool_calls": count(),
    "metadata": OBJECT,
    "user": TEXT,
    "safety_identifier": TEXT,
    "service_tier": TEXT,
    "prompt_cache_options": OBJECT,
    "prompt_cache_retention": TEXT,
    "image": OBJECT,
}
# Refused unless null.
REFUSED: dict[str, Rule] = {
    "conversation": only(None),
    "prompt": only(None),
    "context_management": only(None),
    "moderation": only(None),
}
STREAM_OPTIONS: dict[str, Rule] = {"include_obfuscation": BOOLEAN}
SUMMARIES = ("auto", "concise", "detailed")
REASONING: dict[str, Rule] = {
    "effort": choice(*EFFORTS),
    "summary": choice(*SUMMARIES),
    "generate_summary": choice(*SUMMARIES),
}
# How the output is kept and sent.
CHOICES: dict[str, Rule] = {
    "store": BOOLEAN,
    "background": BOOLEAN,
    "stream": BOOLEAN,
    "truncation": choice(*TRUNCATIONS),
    "previous_response_id": TEXT,
    "instructions": TEXT,
}


@attrs.frozen
class Reasoning:
    """How to think, the client's arguments for the template, and how thoughts are told."""

    thinking: Thinking
    template_args: TemplateArgs
    effort: str | None
    summary: str | None


def read_reasoning(fields: Fields) -> Reasoning:
    asked = fields.object("reasoning")
    given = {} if asked is None else read_all(asked, REASONING)
    budget = fields.count("reasoning_budget")
    args = fields.read("chat_template_kwargs", TEMPLATE_ARGS.read) or {}
    effort = given.get("effort")
    summary = given.get("summary") or given.get("generate_summary")
    return Reasoning(Thinking(None, effort, budget), args, effort, summary)


def read_alternatives(fields: Fields) -> int | None:
    """How many alternatives to report for each token; None without log-probabilities."""
    included = [
        as_choice(item, f"{fields.path('include')}[{index}]", INCLUDES)
        for index, item in enumerate(fields.read("include", as_array) or ())
    ]
    alternatives = fields.integer("top_logprobs", 0, MOST_ALTERNATIVES) or 0
    return alternatives if alternatives or LOGPROBS in included else None


def read_cap(fields: Fields) -> int | None:
    """The most tokens to generate; both names are checked."""
    own, other = fields.count("max_output_tokens", 1), fields.count("max_tokens", 1)
    return other if own is None else own


def read_form(fields: Fields) -> Constraint | None:
    """The form that the answer must have. Raises `RequestError`."""
    return sole([*_format(fields), *guided(fields)])


def _format(fields: Fields) -> Iterator[Constraint]:
    text = fields.object("text")
    if text is None:
        return
    text.text("verbosity")
    wanted = text.object("format")
    if wanted is None:
        return
    kind = as_choice(wanted.required("type"), wanted.path("type"), FORMATS)
    if kind == "json_object":
        yield Constraint("json_object", param=text.path("format"))
    if kind == "json_schema":
        yield named_schema(wanted)


def text_config(body: dict[str, Any]) -> dict[str, Any]:
    """The `text` of the answer: what was sent, with the plain format where none was."""
    return {"format": {"type": "text"}} | {
        name: value for name, value in (body.get("text") or {}).items() if value is not None
    }
