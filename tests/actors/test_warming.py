"""What grammars need is made beside a model's first requests; those with a form wait for it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from headrace.actors.runtime import Runtime
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import InferenceRequest, Prompt, Sampling, Tool, ToolUse
from headrace.runtime.errors import Code
from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.device import ScriptedDevice
from headrace.runtime.testing.fuzzing import Compiling
from headrace.runtime.testing.loader import ScriptedLoader
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted

SECONDS = 3.0


class Slow(Compiling):
    """Takes its time for a vocabulary, or cannot make one."""

    def __init__(self, device: ScriptedDevice, error: Exception | None = None) -> None:
        super().__init__()
        self._device = device
        self._error = error

    def warm(self) -> None:
        self._device.spend(SECONDS)
        if self._error is not None:
            raise self._error


def loader(error: Exception | None = None) -> ScriptedLoader:
    device = ScriptedDevice()
    model = ScriptedModel(tokenizer=Slow(device, error), load_seconds=0)
    return ScriptedLoader(model, device=device)


async def timed(runtime: Runtime, request: InferenceRequest) -> tuple[Answer, float]:
    began = trio.current_time()
    answer = await ask(runtime, request)
    return answer, trio.current_time() - began


def held(**fields: Any) -> InferenceRequest:
    return InferenceRequest("r", None, Prompt(text="Hi"), Sampling(0), max_tokens=2, **fields)


async def test_plain_requests_do_not_wait(autojump_clock: MockClock) -> None:
    async with open_scripted(loader()) as runtime:
        answer, seconds = await timed(runtime, asking("Hi", max_tokens=3))
        assert (answer.code, len(answer.text)) == (None, 3)
        assert seconds < SECONDS / 2


@pytest.mark.parametrize(
    "request_",
    [held(constraint=Constraint("json_object")), held(tools=ToolUse((Tool("add"),), "required"))],
    ids=["form", "tools"],
)
async def test_requests_with_a_form_wait_once(
    autojump_clock: MockClock, request_: InferenceRequest
) -> None:
    async with open_scripted(loader()) as runtime:
        for least, most in ((SECONDS, SECONDS + 1), (0, 1)):
            answer, seconds = await timed(runtime, request_)
            assert answer.code is None
            assert least <= seconds < most


async def test_what_fails_is_told_to_whoever_needs_it_and_to_nobody_else(
    autojump_clock: MockClock,
) -> None:
    async with open_scripted(loader(RuntimeError("no"))) as runtime:
        answer, _ = await timed(runtime, held(constraint=Constraint("json_object")))
        assert answer.code is not Code.ENGINE_UNAVAILABLE
        plain, _ = await timed(runtime, asking("Hi", max_tokens=3))
        assert plain.code is None
        assert [event.name for event in runtime.trace.events()].count("model.not_warmed") == 1
