"""The fields of Anthropic's messages that are not the messages: caps, thinking, output form.

Nothing a client asks for is dropped in silence (wire contract 0): a known field is honoured
somewhere, or it has its line here as accepted without effect, or as refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import attrs

from headrace.http.wire.constraints import guided, sole
from headrace.http.wire.fields import Fields, as_choice
from headrace.http.wire.rules import OBJECT, TEXT, Rule, choice, only, read_all
from headrace.http.wire.thinking import EFFORTS, TEMPLATE_ARGS, TemplateArgs
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import Thinking
from headrace.runtime.errors import Code, RequestError

# Accepted without effect; the type is checked all the same.
WITHOUT_EFFECT: dict[str, Rule] = {
    "metadata": OBJECT,
    "service_tier": TEXT,
    "cache_control": OBJECT,
    "speed": TEXT,
    "inference_geo": TEXT,
    "diagnostics": OBJECT,
    "context_management": OBJECT,
    "user_profile_id": TEXT,
    "workspace_id": TEXT,
}


def _no_thread(value: Any, path: str) -> NoReturn:
    """Conversations are not kept for this protocol. A client that is told so in these words sends
    its whole conversation instead, without a thread."""
    raise RequestError(
        Code.UNSUPPORTED_PARAMETER,
        f"{path} is not supported: send the whole conversation.",
        param=path,
        details={"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
    )


# Refused unless null.
REFUSED: dict[str, Rule] = {
    "container": only(None),
    "mcp_servers": only(None),
    "thread": Rule(_no_thread, {"type": "null"}),
}

# Whether a model that can think is to, by the type of the thinking that was asked for.
THINKING = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
DISPLAYS = ("summarized", "omitted")
OUTPUT: dict[str, Rule] = {"effort": choice(*EFFORTS)}
FORMAT = "json_schema"


@attrs.frozen
class Thoughts:
    """How to think, the client's arguments for the template, and whether thoughts are shown."""

    thinking: Thinking
    template_args: TemplateArgs
    omitted: bool


def read_thoughts(fields: Fields) -> Thoughts:
    args = fields.read("chat_template_kwargs", TEMPLATE_ARGS.read) or {}
    asked, output = fields.object("thinking"), fields.object("output_config")
    effort = None if output is None else read_all(output, OUTPUT).get("effort")
    enabled = budget = display = None
    if asked is not None:
        kind = as_choice(asked.required("type"), asked.path("type"), THINKING)
        enabled, budget = THINKING[kind], asked.count("budget_tokens")
        display = asked.read("display", choice(*DISPLAYS).read)
    return Thoughts(Thinking(enabled, effort, budget), args, display == "omitted")


def read_form(fields: Fields) -> Constraint | None:
    """The form that the answer must have. Raises `RequestError`."""
    return sole([*_format(fields), *guided(fields)])


def _format(fields: Fields) -> Iterator[Constraint]:
    output = fields.object("output_config")
    wanted = None if output is None else output.object("format")
    if wanted is not None:
        as_choice(wanted.required("type"), wanted.path("type"), [FORMAT])
        schema = OBJECT.read(wanted.required("schema"), wanted.path("schema"))
        yield Constraint("json_schema", schema, param=wanted.path("schema"))
