"""Answers that are held to a form, beside rows that are not, in the default model's own words. Its
weights matter to none of it: `make slow` tries it with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
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


async def ask(runtime: Runtime, seed: int, **fields: Any) -> list[Event]:
    prompt = Prompt(messages=(Message("user", "Tell me about Paris."),))
    fields = {"max_tokens": 70} | fields
    request = InferenceRequest("r", None, prompt, Sampling(seed=seed), **fields)
    async with runtime.request(request) as generation:
        return [event async for event in generation]


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def ended(events: list[Event]) -> str:
    end = events[-1]
    assert isinstance(end, Finished)
    return end.reason


def check_call(events: list[Event]) -> None:
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["look_up"]
    arguments = "".join(event.text for event in events if isinstance(event, CallArguments))
    jsonschema.validate(json.loads(arguments), CITY)
    assert (ended(events), text(events)) == ("tool_calls", "")


def check_refused(events: list[Event]) -> None:
    (event,) = events
    assert isinstance(event, Failed)
    assert event.error.code is Code.INVALID_SCHEMA


async def test_rows_with_and_without_a_form_share_a_batch_n1_n2_f5_l6_i5(
    weightless_model: Path,
) -> None:
    """Two forms, a choice and a forced call beside a free row, and a schema that means nothing."""
    asked: dict[str, dict[str, Any]] = {
        "free": {"max_tokens": 8},
        "schema": {"constraint": Constraint("json_schema", CITY)},
        "expression": {"constraint": Constraint("regex", "[a-f]{4,8}")},
        "choice": {"constraint": Constraint("choice", ("ďábel 👩‍👩‍👧 日本",))},
        "call": {"tools": ToolUse((Tool("look_up", CITY),), "required", parallel=False)},
        "meaningless": {"constraint": Constraint("json_schema", {"type": "objct"})},
    }
    answers: dict[str, list[Event]] = {}

    async def one(name: str, seed: int) -> None:
        answers[name] = await ask(runtime, seed, **asked[name])

    settings = Settings(in_process=True, model=str(weightless_model))
    async with open_runtime(settings) as runtime, trio.open_nursery() as nursery:
        for seed, name in enumerate(asked):
            nursery.start_soon(one, name, seed)
    assert text(answers["free"])
    jsonschema.validate(json.loads(text(answers["schema"])), CITY)
    assert set(text(answers["expression"])) <= set("abcdef")
    assert text(answers["choice"]) == "ďábel 👩‍👩‍👧 日本"
    assert {ended(answers[name]) for name in ("schema", "expression", "choice")} == {"stop"}
    check_call(answers["call"])
    check_refused(answers["meaningless"])
