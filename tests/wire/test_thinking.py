"""Whether a model thinks: which of several fields decides, and what the template is told."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.http.wire.fields import Fields
from headrace.http.wire.thinking import EFFORTS, RENDERER_ARGUMENTS, read_thinking
from headrace.runtime.contracts import Thinking
from headrace.runtime.errors import Code, RequestError


def read(*, thinks: bool | None = None, **fields: Any) -> tuple[Thinking, dict[str, Any]]:
    return read_thinking(Fields(fields), thinks)


def test_without_a_word_the_model_decides() -> None:
    assert read() == (Thinking(), {})


@pytest.mark.parametrize("thinks", [True, False])
def test_the_setting_decides_where_a_request_does_not(thinks: bool) -> None:
    assert read(thinks=thinks) == (Thinking(thinks), {})
    assert read(thinks=thinks, reasoning_effort="none")[0].enabled is False
    assert read(thinks=thinks, reasoning_effort="low")[0].enabled is True


@pytest.mark.parametrize("effort", EFFORTS)
def test_an_effort_turns_thinking_on_or_off(effort: str) -> None:
    assert read(reasoning_effort=effort)[0] == Thinking(effort != "none", effort)


@pytest.mark.parametrize("enabled", [True, False, None])
def test_what_is_said_for_the_template_decides_before_the_effort(enabled: bool | None) -> None:
    args = {"enable_thinking": enabled}
    thinking, given = read(thinks=True, chat_template_kwargs=args, reasoning_effort="high")
    assert thinking == Thinking(enabled, "high")
    assert given == args


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
