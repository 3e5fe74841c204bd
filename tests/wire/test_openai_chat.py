"""What a chat completion asks for: honoured, accepted without effect, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.asking import Stamp
from headrace.http.wire.constraints import GUIDED
from headrace.http.wire.openai_chat import Chat, parse
from headrace.http.wire.openai_fields import CHAT_REFUSED, CHAT_WITHOUT_EFFECT
from headrace.http.wire.sampling import RULES as SAMPLING
from headrace.http.wire.shared_fields import AFFINITY
from headrace.http.wire.thinking import RULES as THINKING
from headrace.runtime.constraints import Constraint
from headrace.runtime.contracts import (
    InferenceRequest,
    Message,
    Prompt,
    Sampling,
    Thinking,
    Tool,
    ToolUse,
)
from headrace.runtime.errors import Code, RequestError

STAMP = Stamp("req_1", "ab" * 16, seed=7, created=1760000000, route="/v1/chat/completions")
MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def chat(**fields: Any) -> Chat:
    return parse({"messages": MESSAGES, **fields}, STAMP)


def failure(body: dict[str, Any]) -> tuple[Code, str | None]:
    with pytest.raises(RequestError) as caught:
        parse(body, STAMP)
    return caught.value.code, caught.value.info.param


def test_the_smallest_request() -> None:
    assert chat().requests == (
        InferenceRequest(
            id="req_1",
            model=None,
            prompt=Prompt(messages=(Message("user", "Hi"),)),
            sampling=Sampling(seed=7),
            route="/v1/chat/completions",
        ),
    )


def test_a_full_request() -> None:
    asked = chat(
        model="m",
        stream=True,
        stream_options={"include_usage": True},
        max_completion_tokens=5,
        max_tokens=50,
        stop=["", "END"],
        temperature=0.5,
        seed=3,
        user="u",
        n=2,
        logprobs=True,
        top_logprobs=3,
        tools=[TOOL],
        tool_choice="required",
        parallel_tool_calls=False,
        reasoning_effort="high",
        reasoning_budget=100,
        response_format={"type": "json_object"},
        verbosity="low",
    )
    request = asked.request
    assert asked.include_usage
    assert (request.model, request.stream, request.max_tokens) == ("m", True, 5)
    assert (request.n, request.logprobs, request.stop) == (2, 3, ("END",))
    assert request.sampling == Sampling(seed=3, temperature=0.5)
    assert set(request.given) == {"temperature", "seed"}
    tools = (Tool("add", {"type": "object"}),)
    assert request.tools == ToolUse(tools, "required", parallel=False)
    assert request.thinking == Thinking(effort="high", budget_tokens=100)
    assert request.constraint == Constraint("json_object", param="response_format")
    assert request.prompt.template_args == {"verbosity": "low"}


@pytest.mark.parametrize(
    ("fields", "cap"),
    [
        ({}, None),
        ({"max_tokens": 50}, 50),
        ({"max_completion_tokens": 5, "max_tokens": 50}, 5),
        ({"max_completion_tokens": None, "max_tokens": 3.0}, 3),
        ({"max_tokens": 10**30}, 2**31 - 1),
    ],
)
def test_the_newer_name_of_the_cap_wins_h10(fields: dict[str, Any], cap: int | None) -> None:
    assert chat(**fields).request.max_tokens == cap


@pytest.mark.parametrize(
    ("fields", "alternatives"),
    [
        ({}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_log_probabilities_are_asked_for_f8(
    fields: dict[str, Any], alternatives: int | None
) -> None:
    assert chat(**fields).request.logprobs == alternatives


@pytest.mark.parametrize("name", [None, ""])
def test_an_empty_model_name_is_no_name(name: str | None) -> None:
    assert chat(model=name).request.model is None


def test_unknown_fields_are_ignored() -> None:
    assert chat(something_new={"a": 1}).request == chat().request


@pytest.mark.parametrize("options", [None, {}, {"include_usage": None}, {"other": 5}])
def test_usage_is_sent_only_when_asked_for_h1(options: Any) -> None:
    assert not chat(stream=True, stream_options=options).include_usage


def test_stream_options_mean_nothing_without_a_stream() -> None:
    assert not chat(stream_options={"include_usage": True}).include_usage


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"messages": None}, Code.MISSING_FIELD, "messages"),
        ({"messages": {}}, Code.INVALID_TYPE, "messages"),
        ({"messages": []}, Code.INVALID_VALUE, "messages"),
        ({"model": 5}, Code.INVALID_TYPE, "model"),
        ({"stream": "yes"}, Code.INVALID_TYPE, "stream"),
        ({"stream": 1}, Code.INVALID_TYPE, "stream"),
        ({"stream_options": []}, Code.INVALID_TYPE, "stream_options"),
        (
            {"stream_options": {"include_usage": 1}},
            Code.INVALID_TYPE,
            "stream_options.include_usage",
        ),
        (
            {"stream_options": {"include_obfuscation": "x"}},
            Code.INVALID_TYPE,
            "stream_options.include_obfuscation",
        ),
        ({"max_tokens": 0}, Code.INVALID_VALUE, "max_tokens"),
        ({"max_tokens": -1}, Code.INVALID_VALUE, "max_tokens"),
        ({"max_tokens": True}, Code.INVALID_TYPE, "max_tokens"),
        ({"max_tokens": 1.5}, Code.INVALID_TYPE, "max_tokens"),
        ({"max_completion_tokens": 5, "max_tokens": 0}, Code.INVALID_VALUE, "max_tokens"),
        ({"stop": 5}, Code.INVALID_TYPE, "stop"),
        ({"stop": ["a", None]}, Code.INVALID_TYPE, "stop[1]"),
        ({"stop": ["a"] * 17}, Code.INVALID_VALUE, "stop"),
        ({"continue_final_message": 1}, Code.INVALID_TYPE, "continue_final_message"),
        ({"continue_final_message": True}, Code.INVALID_VALUE, "continue_final_message"),
        ({"modalities": ["text", "audio"]}, Code.UNSUPPORTED_PARAMETER, "modalities"),
        ({"functions": [{}]}, Code.UNSUPPORTED_PARAMETER, "functions"),
        ({"function_call": "auto"}, Code.UNSUPPORTED_PARAMETER, "function_call"),
        ({"chat_template": "{{x}}"}, Code.UNSUPPORTED_PARAMETER, "chat_template"),
        ({"hlg": {}}, Code.UNSUPPORTED_PARAMETER, "hlg"),
        ({"best_of": 2}, Code.UNSUPPORTED_PARAMETER, "best_of"),
        ({"user": 5}, Code.INVALID_TYPE, "user"),
        ({"metadata": "x"}, Code.INVALID_TYPE, "metadata"),
        ({"store": "x"}, Code.INVALID_TYPE, "store"),
        ({"session_id": 1}, Code.INVALID_TYPE, "session_id"),
        ({"verbosity": 3}, Code.INVALID_TYPE, "verbosity"),
        ({"n": "2"}, Code.INVALID_TYPE, "n"),
        ({"n": 0}, Code.INVALID_VALUE, "n"),
        ({"n": 17}, Code.INVALID_VALUE, "n"),
        ({"logprobs": 1}, Code.INVALID_TYPE, "logprobs"),
        ({"top_logprobs": 3}, Code.INVALID_VALUE, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, Code.INVALID_VALUE, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": True}, Code.INVALID_TYPE, "top_logprobs"),
        ({"reasoning_effort": "huge"}, Code.INVALID_VALUE, "reasoning_effort"),
        ({"reasoning_budget": -1}, Code.INVALID_VALUE, "reasoning_budget"),
        ({"tools": {}}, Code.INVALID_TYPE, "tools"),
        ({"parallel_tool_calls": "no"}, Code.INVALID_TYPE, "parallel_tool_calls"),
        ({"adapter": 5}, Code.INVALID_TYPE, "adapter"),
        ({"adapter": "a"}, Code.ADAPTER_NOT_FOUND, "adapter"),
    ],
)
def test_bad_fields_are_named_i1_i3(fields: dict[str, Any], code: Code, param: str) -> None:
    assert failure({"messages": MESSAGES, **fields}) == (code, param)


def test_the_edge_says_how_many_choices_there_may_be() -> None:
    small = Stamp("req_1", "1", seed=7, created=0, most_choices=2)
    assert parse({"messages": MESSAGES, "n": 2}, small).request.n == 2
    with pytest.raises(RequestError, match="at most 2"):
        parse({"messages": MESSAGES, "n": 3}, small)


NEUTRAL: list[dict[str, Any]] = [
    {"n": 1},
    {"n": 1.0},
    {"logprobs": False, "top_logprobs": 0},
    {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False},
    {"tools": [], "tool_choice": "none"},
    {"response_format": {"type": "text"}, "structured_outputs": {}},
    {"modalities": ["text"]},
    {"chat_template_kwargs": {}, "adapter": "none"},
    {"user": "u", "metadata": {}, "store": True, "service_tier": "auto", "prediction": {}},
    {"prompt_cache_key": "k", "session_id": "s", "safety_identifier": "i"},
]
KNOWN = [
    *(*AFFINITY, *CHAT_REFUSED, *CHAT_WITHOUT_EFFECT, *SAMPLING, *THINKING, *GUIDED),
    *("messages", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens"),
    *("stop", "continue_final_message", "verbosity", "n", "logprobs", "top_logprobs", "tools"),
    *("tool_choice", "parallel_tool_calls", "response_format", "structured_outputs", "adapter"),
]


@pytest.mark.parametrize("fields", NEUTRAL, ids=lambda fields: next(iter(fields)))
def test_neutral_values_ask_for_nothing(fields: dict[str, Any]) -> None:
    assert chat(**fields).request == chat().request


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "messages"])
def test_null_is_absent(name: str) -> None:
    assert chat(**{name: None}).request == chat().request


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(KNOWN), odd, max_size=4))
def test_no_value_of_any_field_is_a_server_error_i1(fields: dict[str, Any]) -> None:
    try:
        parse({"messages": MESSAGES, **fields}, STAMP)
    except RequestError as error:
        named = error.info.param or ""
        assert named.split(".")[0].split("[")[0] in {*fields, "messages"}
