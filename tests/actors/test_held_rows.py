"""Answers of the real model that are held to a form, beside rows that are not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
import trio

from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import (
    CallArguments,
    CallStarted,
    Delta,
    Event,
    Failed,
    Finished,
    InferenceRequest,
    Message,
    Prompt,
    Sampling,
    Tool,
    ToolUse,
)
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "people": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "people"],
    "additionalProperties": False,
}


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with open_runtime(Settings(in_process=True)) as opened:
        yield opened


async def ask(runtime: Runtime, seed: int, **fields: Any) -> list[Event]:
    prompt = Prompt(messages=(Message("user", "Tell me about Paris."),))
    request = InferenceRequest("r", None, prompt, Sampling(seed=seed), max_tokens=70, **fields)
    async with runtime.request(request) as generation:
        return [event async for event in generation]


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


async def test_rows_with_and_without_a_form_share_a_batch_n1_n2_f5(runtime: Runtime) -> None:
    forms: list[Constraint | None] = [
        Constraint("json_schema", CITY),
        None,
        Constraint("regex", "[a-f]{4,8}"),
        Constraint("choice", ("ďábel 👩‍👩‍👧 日本",)),
    ]
    answers: dict[int, list[Event]] = {}

    async def one(number: int) -> None:
        answers[number] = await ask(runtime, number, constraint=forms[number])

    async with trio.open_nursery() as nursery:
        for number in range(len(forms)):
            nursery.start_soon(one, number)
    jsonschema.validate(json.loads(text(answers[0])), CITY)
    assert set(text(answers[2])) <= set("abcdef")
    assert text(answers[3]) == "ďábel 👩‍👩‍👧 日本"
    for number in (0, 2, 3):
        end = answers[number][-1]
        assert isinstance(end, Finished)
        assert end.reason == "stop"


async def test_a_forced_call_has_valid_arguments_l6(runtime: Runtime) -> None:
    tools = ToolUse((Tool("look_up", CITY),), "required", parallel=False)
    events = await ask(runtime, 1, tools=tools)
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["look_up"]
    arguments = "".join(event.text for event in events if isinstance(event, CallArguments))
    jsonschema.validate(json.loads(arguments), CITY)
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.reason, text(events)) == ("tool_calls", "")


async def test_a_schema_that_means_nothing_is_refused_i5(runtime: Runtime) -> None:
    (event,) = await ask(runtime, 1, constraint=Constraint("json_schema", {"type": "objct"}))
    assert isinstance(event, Failed)
    assert event.error.code is Code.INVALID_SCHEMA
