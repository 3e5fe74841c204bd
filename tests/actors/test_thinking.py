"""Who decides whether a request thinks, and what its template hears of it (wire contract 3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from trio.testing import MockClock

from headrace.actors.thinking import by_default, template_arguments, wants_thinking
from headrace.http.models import capabilities
from headrace.runtime.contracts import InferenceRequest, Prompt, Sampling, Thinking
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.runtime import ask, asking
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.templates import TEMPLATES
from headrace.runtime.testing.tokens import ScriptedTokenizer

UNSAID = Thinking()


def request(thinking: Thinking = UNSAID, **args: Any) -> InferenceRequest:
    prompt = Prompt(messages=(), template_args=args)
    return InferenceRequest("r", None, prompt, Sampling(0), thinking=thinking)


def test_it_is_left_to_the_template_where_nobody_says() -> None:
    assert wants_thinking(request()) is None
    assert template_arguments(request(mood="sad")) == {"mood": "sad"}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_switch_is_passed_on(enabled: bool) -> None:
    asked = request(Thinking(enabled))
    assert wants_thinking(asked) is enabled
    assert template_arguments(asked) == {"enable_thinking": enabled}


@pytest.mark.parametrize(
    ("effort", "wanted"), [("none", False), ("minimal", True), ("high", True), ("max", True)]
)
def test_an_effort_is_a_switch_and_is_told_in_any_case(effort: str, wanted: bool) -> None:
    asked = request(Thinking(effort=effort))
    assert wants_thinking(asked) is wanted
    assert template_arguments(asked) == {"enable_thinking": wanted, "reasoning_effort": effort}


def test_the_switch_comes_before_the_effort() -> None:
    asked = request(Thinking(enabled=False, effort="high"))
    assert template_arguments(asked) == {"enable_thinking": False, "reasoning_effort": "high"}


def test_what_the_client_tells_the_template_itself_comes_first() -> None:
    asked = request(Thinking(True, "high"), enable_thinking=False, reasoning_effort="low")
    assert wants_thinking(asked) is False
    assert template_arguments(asked) == {"enable_thinking": False, "reasoning_effort": "low"}


def test_null_leaves_the_switch_to_the_template() -> None:
    asked = request(Thinking(True), enable_thinking=None)
    assert wants_thinking(asked) is None
    assert template_arguments(asked) == {}


class TestTheSetting:
    @pytest.mark.parametrize(("setting", "wanted"), [("on", True), ("off", False), ("model", None)])
    def test_decides_where_a_request_does_not(self, setting: Any, wanted: bool | None) -> None:
        assert wants_thinking(by_default(request(), setting)) is wanted
        budget = Thinking(budget_tokens=5)
        assert wants_thinking(by_default(request(budget), setting)) is wanted

    @pytest.mark.parametrize(
        "asked",
        [
            request(Thinking(False)),
            request(Thinking(True)),
            request(Thinking(effort="none")),
            request(Thinking(effort="low")),
            request(enable_thinking=True),
            request(enable_thinking=None),
        ],
    )
    def test_decides_nothing_where_it_does(self, asked: InferenceRequest) -> None:
        assert by_default(asked, "on") == by_default(asked, "off") == asked


class Recording(ScriptedTokenizer):
    """Keeps what its template was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[dict[str, Any]] = []

    def render(self, prompt: Prompt, tools: Sequence[dict[str, Any]] = ()) -> str:
        self.told.append(prompt.template_args)
        return super().render(prompt, tools)


@pytest.mark.parametrize(("setting", "told"), [("off", False), ("on", True)])
async def test_the_setting_holds_for_a_program_that_embeds_the_runtime(
    autojump_clock: MockClock, setting: Any, told: bool
) -> None:
    tokenizer = Recording()
    model = ScriptedModel(tokenizer=tokenizer)
    async with open_scene(model, Settings(thinking=setting)) as scene:
        await ask(scene.runtime, asking("Hi", max_tokens=1))
    assert tokenizer.told[-1] == {"enable_thinking": told}


@pytest.mark.parametrize(
    ("style", "reasons"),
    [("plain", False), ("hermes", False), ("thinking", True), ("opens thinking", True)],
)
async def test_whether_a_model_reasons_is_known_once_it_is_loaded(
    autojump_clock: MockClock, style: str, reasons: bool
) -> None:
    model = ScriptedModel(tokenizer=ScriptedTokenizer(template=TEMPLATES[style]))
    async with open_scene(model) as scene:
        info = scene.runtime.model(model.id).info
        assert info is not None
        assert info.reasons is reasons
        assert capabilities(info)["reasoning"] is reasons
    assert not capabilities(None)["reasoning"]
