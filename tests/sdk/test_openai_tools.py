"""Tools through the official Python client. Calls are forced: the model would make none.

The default model is held to one in `test_real_cases.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

from headrace.runtime.testing.serving import Serving

Ask: TypeAlias = Callable[..., Any]


class Weather(BaseModel):
    """Look up the weather."""

    unit: Literal["c", "f"]


class Clock(BaseModel):
    """Look up the time."""

    zone: Literal["utc", "local"]


# The client writes the schemas, as it does for its users.
TOOLS: list[Any] = [openai.pydantic_function_tool(model) for model in (Weather, Clock)]
MODELS: dict[str, type[BaseModel]] = {"Weather": Weather, "Clock": Clock}


def named(name: str) -> Any:
    return {"type": "function", "function": {"name": name}}


ASKED: dict[str, Any] = {
    "model": "default",
    "messages": [{"role": "user", "content": "What is the weather?"}],
    "temperature": 0,
    "max_completion_tokens": 200,
    "tools": TOOLS,
    # A model of this size goes on calling for as long as it may.
    "parallel_tool_calls": False,
}
FORCED = ASKED | {"tool_choice": named("Weather")}


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """Forced calls depend on no weights."""
    return served_small


@pytest.fixture(scope="module")
def ask(client: openai.OpenAI) -> Ask:
    return lambda **given: client.chat.completions.create(**(ASKED | given))


@pytest.fixture(scope="module")
def forced(ask: Ask) -> ChatCompletion:
    answer: ChatCompletion = ask(tool_choice=named("Weather"))
    return answer


def calls(message: Any) -> list[tuple[str, str]]:
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]


def test_a_named_tool_is_called_with_valid_arguments(forced: ChatCompletion) -> None:
    ChatCompletion.model_validate(forced.to_dict(), strict=True)
    (choice,) = forced.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    ids = [call.id for call in choice.message.tool_calls or ()]
    assert ids
    assert len(set(ids)) == len(ids)
    for name, arguments in calls(choice.message):
        assert name == "Weather"
        Weather.model_validate_json(arguments)


def test_a_stream_brings_the_same_calls_in_pieces(ask: Ask, forced: ChatCompletion) -> None:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for chunk in ask(tool_choice=named("Weather"), stream=True):
        (choice,) = ChatCompletionChunk.model_validate(chunk.to_dict(), strict=True).choices
        for piece in choice.delta.tool_calls or ():
            assert piece.function is not None
            if piece.id is not None:
                assert piece.index not in names
                names[piece.index] = piece.function.name or ""
            arguments[piece.index] = arguments.get(piece.index, "") + (
                piece.function.arguments or ""
            )
    assert [(names[i], arguments[i]) for i in sorted(names)] == calls(forced.choices[0].message)


def test_the_stream_helper_parses_the_arguments(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**FORCED) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [event.name for event in done] == ["Weather"] * len(done)
    assert all(isinstance(event.parsed_arguments, Weather) for event in done)
    assert [event.arguments for event in done] == [
        arguments for _, arguments in calls(final.choices[0].message)
    ]


def test_parse_gives_the_arguments_as_a_model(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**FORCED)
    called = answer.choices[0].message.tool_calls or []
    assert called
    assert all(isinstance(call.function.parsed_arguments, Weather) for call in called)


def test_some_tool_has_to_be_called(ask: Ask) -> None:
    answer = ask(tool_choice="required")
    ((name, arguments),) = calls(answer.choices[0].message)
    MODELS[name].model_validate_json(arguments)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_only_the_allowed_tool_is_called(ask: Ask) -> None:
    allowed = {"mode": "required", "tools": [named("Clock")]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    answer = ask(tool_choice=choice)
    assert [name for name, _ in calls(answer.choices[0].message)] == ["Clock"]


def test_no_tool_is_called_or_shown_without_leave(ask: Ask) -> None:
    answer = ask(tool_choice="none", max_completion_tokens=3)
    assert answer.choices[0].message.tool_calls is None
    without = ask(tools=openai.omit, max_completion_tokens=1)
    assert answer.usage.prompt_tokens == without.usage.prompt_tokens


def test_a_call_that_is_cut_says_so(ask: Ask) -> None:
    answer = ask(tool_choice=named("Weather"), max_completion_tokens=4)
    assert answer.choices[0].finish_reason == "length"
    assert not answer.choices[0].message.content


def test_results_go_back_and_an_answer_comes(ask: Ask, forced: ChatCompletion) -> None:
    said = forced.choices[0].message.to_dict()
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
        for call in forced.choices[0].message.tool_calls or ()
    ]
    turns = [*ASKED["messages"], said, *results]
    answer = ask(messages=turns, tool_choice="auto", max_completion_tokens=3)
    assert answer.usage.prompt_tokens > (forced.usage.prompt_tokens if forced.usage else 0)


def test_arguments_of_many_kinds_hold_to_their_schema(ask: Ask) -> None:
    schema = {
        "type": "object",
        "properties": {
            "on": {"type": "boolean"},
            "level": {"enum": [1, 22, 333]},
            "tags": {"type": "array", "items": {"enum": ["é", 'q"']}, "minItems": 1, "maxItems": 1},
        },
        "required": ["on", "level", "tags"],
        "additionalProperties": False,
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    answer = ask(tools=[tool], tool_choice=named("f"))
    ((_, text),) = calls(answer.choices[0].message)
    arguments = json.loads(text)
    assert arguments.keys() == {"on", "level", "tags"}
    assert arguments["level"] in (1, 22, 333)
    assert arguments["tags"] in (["é"], ['q"'])
