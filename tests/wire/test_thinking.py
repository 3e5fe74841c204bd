"""What is said about thinking on the OpenAI routes, and what the template is told."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.fields import Fields
from headrace.http.wire.thinking import EFFORTS, RENDERER_ARGUMENTS, read_thinking
from headrace.runtime.contracts import Thinking
from headrace.runtime.errors import Code, RequestError


def read(**fields: Any) -> tuple[Thinking, dict[str, Any]]:
    return read_thinking(Fields(fields))


def test_without_a_word_nothing_is_asked() -> None:
    assert read() == (Thinking(), {})


@pytest.mark.parametrize("effort", EFFORTS)
def test_an_effort_is_passed_on(effort: str) -> None:
    assert read(reasoning_effort=effort)[0] == Thinking(effort=effort)


@pytest.mark.parametrize("enabled", [True, False, None])
def test_the_templates_own_switch_is_passed_on_null_included(enabled: bool | None) -> None:
    args = {"enable_thinking": enabled}
    assert read(chat_template_kwargs=args, reasoning_effort="high") == (
        Thinking(effort="high"),
        args,
    )


def test_other_arguments_are_passed_on_as_they_are() -> None:
    args = {"documents": [{"a": None}], "reasoning_effort": "mine", "custom": 1}
    assert read(chat_template_kwargs=args, reasoning_effort="low")[1] == args


def test_a_budget_is_a_number_of_tokens() -> None:
    assert read(reasoning_budget=0)[0] == Thinking(budget_tokens=0)
    assert read(reasoning_budget=10**30)[0] == Thinking(budget_tokens=2**31 - 1)


@pytest.mark.parametrize("name", RENDERER_ARGUMENTS)
def test_what_belongs_to_the_renderer_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(chat_template_kwargs={name: None})
    assert caught.value.code is Code.INVALID_VALUE
    assert caught.value.info.param == f"chat_template_kwargs.{name}"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"reasoning_effort": "huge"}, Code.INVALID_VALUE, "reasoning_effort"),
        ({"reasoning_effort": 1}, Code.INVALID_TYPE, "reasoning_effort"),
        ({"reasoning_budget": "x"}, Code.INVALID_TYPE, "reasoning_budget"),
        ({"chat_template_kwargs": []}, Code.INVALID_TYPE, "chat_template_kwargs"),
        (
            {"chat_template_kwargs": {"enable_thinking": "yes"}},
            Code.INVALID_TYPE,
            "chat_template_kwargs.enable_thinking",
        ),
        ({"chat_template_kwargs": {"x": [10**30]}}, Code.INVALID_VALUE, "chat_template_kwargs"),
    ],
)
def test_bad_values_are_named(fields: dict[str, Any], code: Code, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert (caught.value.code, caught.value.info.param) == (code, param)
