"""Whether and how hard a model is to reason, in the fields of the OpenAI routes and in those for
its chat template (wire contract 3.7)."""

from __future__ import annotations

from typing import Any, TypeAlias

from headrace.http.wire.fields import Fields, wrong_value
from headrace.http.wire.rules import OBJECT, Rule, choice, count, read_all
from headrace.runtime.contracts import Thinking

TemplateArgs: TypeAlias = dict[str, Any]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# The template's own switch, which a client may set itself.
SWITCH = "enable_thinking"
# These belong to whoever renders the template.
RENDERER_ARGUMENTS = (
    "messages",
    "tools",
    "tokenize",
    "add_generation_prompt",
    "continue_final_message",
)


def read_thinking(fields: Fields) -> tuple[Thinking, TemplateArgs]:
    """What was asked of the model, and the client's own arguments for its template. Which of them
    decides is the same for every protocol, and settled below (`actors.thinking`)."""
    given = read_all(fields, RULES)
    args: TemplateArgs = given.get("chat_template_kwargs", {})
    thinking = Thinking(
        effort=given.get("reasoning_effort"), budget_tokens=given.get("reasoning_budget")
    )
    return thinking, args


def _template_args(value: Any, path: str) -> TemplateArgs:
    args = Fields(OBJECT.read(value, path), path)
    for name in RENDERER_ARGUMENTS:
        if args.has(name):
            raise wrong_value(args.path(name), "is not for a client to set")
    args.boolean(SWITCH)
    return dict(value)


TEMPLATE_ARGS = Rule(_template_args, {"type": "object"})

RULES: dict[str, Rule] = {
    "reasoning_effort": choice(*EFFORTS),
    "reasoning_budget": count(),
    "chat_template_kwargs": TEMPLATE_ARGS,
}
