"""Whether a request is to think, and how its template is told (wire contract 3.7). Pure."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from headrace.runtime.contracts import InferenceRequest

# The template's switch. A client may set it itself; null leaves it to the template.
SWITCH = "enable_thinking"


def by_default(
    request: InferenceRequest, setting: Literal["model", "on", "off"]
) -> InferenceRequest:
    """The setting `thinking` is for requests that do not say."""
    thinking = request.thinking
    said = (
        SWITCH in request.prompt.template_args
        or thinking.enabled is not None
        or thinking.effort is not None
    )
    if said or setting == "model":
        return request
    return attrs.evolve(request, thinking=attrs.evolve(thinking, enabled=setting == "on"))


def wants_thinking(request: InferenceRequest) -> bool | None:
    """None where it is left to the model. What the client told the template itself comes first,
    an effort means yes unless it is none."""
    args, thinking = request.prompt.template_args, request.thinking
    if SWITCH in args:
        wanted = args[SWITCH]
        return wanted if isinstance(wanted, bool) else None
    if thinking.enabled is None and thinking.effort is not None:
        return thinking.effort != "none"
    return thinking.enabled


def template_arguments(request: InferenceRequest) -> dict[str, Any]:
    """The client's arguments and those that say how to think. The switch is only there if
    somebody has set it: templates have defaults of their own."""
    args = {name: value for name, value in request.prompt.template_args.items() if name != SWITCH}
    wanted = wants_thinking(request)
    if wanted is not None:
        args[SWITCH] = wanted
    if request.thinking.effort is not None:
        args.setdefault("reasoning_effort", request.thinking.effort)
    return args
