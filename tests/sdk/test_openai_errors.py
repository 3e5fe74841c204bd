"""Refusals, hang-ups and failures, as the official Python client shows them."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from headrace.runtime.testing.serving import Serving

CHAT: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}
LONG = CHAT | {"max_completion_tokens": 4000, "extra_body": {"ignore_eos": True}}
PIXEL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
TOOL = {"type": "function", "function": {"name": "f"}}

BAD = openai.BadRequestError
REFUSED: dict[str, tuple[dict[str, Any], type[openai.APIStatusError], str | None, str]] = {
    "model": ({"model": "none-such"}, openai.NotFoundError, "model", "model_not_found"),
    "range": ({"temperature": 5}, BAD, "temperature", "invalid_value"),
    "type": ({"max_completion_tokens": "8"}, BAD, "max_completion_tokens", "invalid_type"),
    "nothing": ({"messages": []}, BAD, "messages", "invalid_value"),
    "role": (
        {"messages": [{"role": "robot", "content": "x"}]},
        BAD,
        "messages[0].role",
        "invalid_value",
    ),
    "media": (
        {"messages": [{"role": "user", "content": [PIXEL]}]},
        BAD,
        "messages[0].content[0]",
        "vision-tower-absent",
    ),
    "scores": ({"top_logprobs": 3}, BAD, "top_logprobs", "invalid_value"),
    "no tools": ({"tool_choice": "required"}, BAD, "tool_choice", "invalid_tool_choice"),
    "no such tool": (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        BAD,
        "tool_choice",
        "invalid_tool_choice",
    ),
    "choices": ({"n": 0}, BAD, "n", "invalid_value"),
    "old": ({"functions": [{"name": "f"}]}, BAD, "functions", "unsupported_parameter"),
    "context": (
        {"messages": [{"role": "user", "content": "word " * 9000}]},
        BAD,
        "messages",
        "context_length_exceeded",
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_an_error_of_the_clients_own(
    client: openai.OpenAI, case: str, stream: bool
) -> None:
    fields, kind, param, code = REFUSED[case]
    with pytest.raises(kind) as caught:
        client.chat.completions.create(**(CHAT | fields | {"stream": stream}))
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.request_id
    assert "Traceback" not in caught.value.message


def test_a_route_that_is_not_served_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.moderations.create(input="x")
    assert caught.value.code == "not_found"


class TestHangingUp:
    """A client that leaves takes its row with it: each test ends with every gauge at rest."""

    def test_a_stream_that_is_closed(self, client: openai.OpenAI, nothing_left: Serving) -> None:
        before = nothing_left.metric("headrace_cancelled_total", reason="disconnect")
        stream = client.chat.completions.create(**LONG, stream=True)
        for _ in zip(range(3), stream, strict=False):
            pass
        assert nothing_left.metric("headrace_rows_running") == 1
        stream.close()
        nothing_left.until(lambda: nothing_left.metric("headrace_rows_running") == 0)
        after = nothing_left.metric("headrace_cancelled_total", reason="disconnect")
        assert after == before + 1

    def test_a_helper_that_is_left_early(
        self, client: openai.OpenAI, nothing_left: Serving
    ) -> None:
        with client.chat.completions.stream(**LONG) as stream:
            next(iter(stream))
            (live,) = nothing_left.get_json("/v1/requests")["data"]
        nothing_left.until(lambda: nothing_left.get_json("/v1/requests")["data"] == [])
        assert live["state"] in ("prefilling", "decoding")

    def test_a_client_that_waits_no_longer(
        self, client: openai.OpenAI, nothing_left: Serving
    ) -> None:
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.6).chat.completions.create(**LONG)
        nothing_left.until(lambda: nothing_left.metric("headrace_requests_in_flight") == 0)

    def test_one_of_several_choices_is_enough(
        self, client: openai.OpenAI, nothing_left: Serving
    ) -> None:
        with client.chat.completions.create(**LONG, n=3, stream=True) as stream:
            next(iter(stream))
            nothing_left.until(lambda: nothing_left.metric("headrace_rows_running") == 3)
        nothing_left.until(lambda: nothing_left.metric("headrace_rows_running") == 0)


def test_a_stream_that_somebody_else_cancels_raises(
    client: openai.OpenAI, nothing_left: Serving
) -> None:
    stream = client.chat.completions.create(**LONG, stream=True)
    first = next(iter(stream))
    client.delete(f"/requests/{first.id}", cast_to=object)
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == "request_cancelled"
