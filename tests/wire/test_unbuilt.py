"""What the engine cannot do yet is said, and never dropped."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from headrace.http.wire.unbuilt import UNBUILT, check_built
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import (
    InferenceRequest,
    Prompt,
    Sampling,
    Thinking,
    Tool,
    ToolUse,
)
from headrace.runtime.errors import Code, RequestError

PLAIN = InferenceRequest("r", None, Prompt(text="Hi"), Sampling(seed=1))
TOOLS = (Tool("add"),)
# How each line of the table is asked for.
ASKING: dict[str, dict[str, Any]] = {
    "n": {"n": 2},
    "logprobs": {"logprobs": 0},
    "tools": {"tools": ToolUse((Tool("add", strict=True),))},
    "tool_choice": {"tools": ToolUse(TOOLS, "required")},
    "reasoning_budget": {"thinking": Thinking(budget_tokens=0)},
    "response_format": {"constraint": Constraint("json_object")},
    "echo": {"echo": True},
    "max_tokens": {"max_tokens": 0},
}


def asking(name: str) -> InferenceRequest:
    return attrs.evolve(PLAIN, **ASKING[name])


def test_a_plain_request_can_be_done() -> None:
    strict = (Tool("add", strict=True),)
    for tools in (ToolUse(TOOLS), ToolUse(TOOLS, "none"), ToolUse(strict, "none")):
        check_built([PLAIN, attrs.evolve(PLAIN, max_tokens=1, tools=tools)])


@pytest.mark.parametrize("name", UNBUILT)
def test_each_line_of_the_table_is_a_reason(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_built([PLAIN, asking(name)])
    assert caught.value.code is Code.UNSUPPORTED_EXECUTION
    assert caught.value.info.param == name
    assert caught.value.info.details == {"reasons": [name]}


def test_what_the_table_has_no_line_for_can_be_done() -> None:
    check_built([asking(name) for name in ASKING if name not in UNBUILT])


@pytest.mark.skipif(len(UNBUILT) < 2, reason="the table has no two lines")
def test_all_reasons_are_named_at_once() -> None:
    first, second = list(UNBUILT)[:2]
    with pytest.raises(RequestError) as caught:
        check_built([asking(second), asking(first), asking(second)])
    details = caught.value.info.details or {}
    assert sorted(details["reasons"]) == sorted([first, second])
