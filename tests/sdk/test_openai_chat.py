"""Chat through the official Python client: a real server, and its small model.

Nothing here judges what it says; texts are compared with each other. The default model chats in
`test_real_cases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import openai
import pytest
import trio
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from headrace.runtime.testing.serving import Serving

ASKED = "Write one short sentence about the sea."
Ask: TypeAlias = Callable[..., Any]


@pytest.fixture(scope="module")
def served(served_small: Serving) -> Serving:
    """Texts are compared, whatever the weights are."""
    return served_small


@pytest.fixture(scope="module")
def ask(client: openai.OpenAI) -> Ask:
    """A short greedy answer, unless the fields say otherwise."""
    fields: dict[str, Any] = {
        "model": "default",
        "messages": [{"role": "user", "content": ASKED}],
        "temperature": 0,
        "max_completion_tokens": 8,
    }
    return lambda **given: client.chat.completions.create(**(fields | given))


@pytest.fixture(scope="module")
def plain(ask: Ask) -> ChatCompletion:
    answer: ChatCompletion = ask()
    return answer


@pytest.fixture(scope="module")
def text(plain: ChatCompletion) -> str:
    return plain.choices[0].message.content or ""


def chunks(stream: Any) -> list[ChatCompletionChunk]:
    """All chunks, each checked against the client's own type: the client itself checks nothing."""
    return [ChatCompletionChunk.model_validate(chunk.to_dict(), strict=True) for chunk in stream]


def said(seen: list[ChatCompletionChunk], index: int = 0) -> str:
    pieces = [choice for chunk in seen for choice in chunk.choices if choice.index == index]
    return "".join(choice.delta.content or "" for choice in pieces)


def test_a_whole_answer_is_what_the_client_declares(plain: ChatCompletion) -> None:
    ChatCompletion.model_validate(plain.to_dict(), strict=True)
    assert plain.object == "chat.completion"
    assert plain.id.startswith("chatcmpl-")
    (choice,) = plain.choices
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert plain.usage is not None
    assert plain.usage.completion_tokens == 8
    assert plain.usage.total_tokens == plain.usage.prompt_tokens + 8


def test_a_stream_says_the_same(ask: Ask, text: str) -> None:
    seen = chunks(ask(stream=True))
    assert said(seen) == text
    assert {chunk.id for chunk in seen} == {seen[0].id}
    assert seen[0].choices[0].delta.role == "assistant"
    reasons = [chunk.choices[0].finish_reason for chunk in seen]
    assert reasons == [None] * (len(seen) - 1) + ["length"]


def test_the_stream_helper_gathers_it(client: openai.OpenAI, text: str) -> None:
    # It takes an answer that was cut for a failure, so this one ends by itself.
    stop, asked = text[3:7], [{"role": "user", "content": ASKED}]
    fields: dict[str, Any] = {"model": "default", "messages": asked, "temperature": 0, "stop": stop}
    with client.chat.completions.stream(**fields) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    whole = text.partition(stop)[0]
    assert "".join(event.delta for event in events if event.type == "content.delta") == whole
    assert [event.content for event in events if event.type == "content.done"] == [whole]
    assert final.choices[0].message.content == whole


def test_the_stream_helper_takes_a_cut_answer_for_a_failure(client: openai.OpenAI) -> None:
    asked: Any = [{"role": "user", "content": ASKED}]
    with (
        client.chat.completions.stream(
            model="default", messages=asked, max_completion_tokens=1
        ) as stream,
        pytest.raises(openai.LengthFinishReasonError) as caught,
    ):
        stream.get_final_completion()
    assert caught.value.completion.choices[0].message.content


def test_usage_comes_last_where_it_was_asked_for(ask: Ask, plain: ChatCompletion) -> None:
    *seen, last = chunks(ask(stream=True, stream_options={"include_usage": True}))
    assert [chunk.usage for chunk in seen] == [None] * len(seen)
    assert last.choices == []
    assert last.usage is not None
    assert plain.usage is not None
    assert last.usage.total_tokens == plain.usage.total_tokens


def test_no_chunk_is_without_a_choice_where_it_was_not(ask: Ask) -> None:
    assert all(chunk.choices for chunk in ask(stream=True, stream_options={}))


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_stop_string_is_cut_off(ask: Ask, text: str, several: bool, stream: bool) -> None:
    stop = text[3:7]
    given = ask(stop=[stop, "\x00 never"] if several else stop, stream=stream)
    if stream:
        seen = chunks(given)
        told, reason = said(seen), seen[-1].choices[0].finish_reason
    else:
        told, reason = given.choices[0].message.content, given.choices[0].finish_reason
    assert told == text.partition(stop)[0]
    assert reason == "stop"


def test_the_newer_name_of_the_cap_wins(ask: Ask) -> None:
    answer = ask(max_tokens=50, max_completion_tokens=2)
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (2, "length")


def test_a_cap_beyond_the_context_is_no_error(ask: Ask, text: str) -> None:
    answer = ask(max_completion_tokens=10_000_000, stop=text[3:7])
    assert answer.choices[0].finish_reason == "stop"
    assert [warning["code"] for warning in answer.warnings] == ["max_tokens_clamped"]


def test_messages_of_every_role_and_form(ask: Ask) -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}]},
        {"role": "system", "content": "brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello."}], "name": "ann"},
        {"role": "assistant", "content": "Hi!", "refusal": None, "tool_calls": None},
        {"role": "user", "content": ""},
        {"role": "user", "content": "Two of mine in a row."},
    ]
    assert ask(messages=messages, max_completion_tokens=2).usage.completion_tokens == 2


def test_a_started_answer_is_gone_on_with(ask: Ask) -> None:
    started = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2, 3,"}]
    answer = ask(messages=started, max_completion_tokens=4)
    assert not (answer.choices[0].message.content or "").startswith("1, 2, 3")
    closed = ask(
        messages=started, max_completion_tokens=1, extra_body={"continue_final_message": False}
    )
    assert closed.usage.prompt_tokens > answer.usage.prompt_tokens


def test_what_is_neutral_or_for_others_changes_nothing(ask: Ask, text: str) -> None:
    neutral = {
        "top_p": 1,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "logit_bias": {},
        "n": 1,
        "response_format": {"type": "text"},
        "logprobs": False,
        "stream": False,
        "modalities": ["text"],
        "store": False,
        "metadata": {"a": "b"},
        "user": "ann",
        "service_tier": "auto",
        "safety_identifier": "x",
        "prompt_cache_key": "k",
        "reasoning_effort": "low",
        "verbosity": "low",
    }
    unknown = {"min_p": 0.0, "top_k": 0, "repetition_penalty": 1.0, "no_such_field": 1}
    assert ask(**neutral, extra_body=unknown).choices[0].message.content == text


def test_null_is_absent(ask: Ask, text: str) -> None:
    names = ["top_p", "n", "stop", "seed", "tools", "tool_choice", "stream_options", "user"]
    names += ["logprobs", "top_logprobs", "functions", "function_call", "parallel_tool_calls"]
    nulls = dict.fromkeys([*names, "max_tokens", "response_format", "metadata", "stream"])
    assert ask(extra_body=nulls).choices[0].message.content == text


def test_other_scripts_come_through_a_stream_whole(ask: Ask) -> None:
    told = "🙂 čšž 日本語 🏳️‍🌈 𝔘𝔫𝔦"
    turns = [("user", f"Say {told}"), ("assistant", told), ("user", f"Again: {told}")]
    messages = [{"role": role, "content": content} for role, content in turns]
    whole = ask(messages=messages).choices[0].message.content
    assert said(chunks(ask(messages=messages, stream=True))) == whole


def test_a_raw_response_has_the_headers_too(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="default",
        messages=[{"role": "user", "content": "Hi"}],
        max_completion_tokens=1,
        extra_headers={"X-Request-ID": "mine-1"},
    )
    assert raw.headers["x-request-id"] == "mine-1"
    assert raw.parse().choices[0].finish_reason == "length"


def test_a_stream_can_be_read_line_by_line(client: openai.OpenAI) -> None:
    with client.chat.completions.with_streaming_response.create(
        model="default",
        messages=[{"role": "user", "content": "Hi"}],
        max_completion_tokens=1,
        stream=True,
    ) as response:
        # A comment only says that the stream lives.
        lines = [line for line in response.iter_lines() if line and not line.startswith(":")]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"


async def test_the_async_client_runs_several_at_once(served: Serving, text: str) -> None:
    texts: list[str | None] = []

    async def one(client: openai.AsyncOpenAI) -> None:
        answer = await client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": ASKED}],
            temperature=0,
            max_completion_tokens=2,
        )
        texts.append(answer.choices[0].message.content)

    base_url = f"{served.base_url}/v1"
    async with (
        openai.AsyncOpenAI(base_url=base_url, api_key="any") as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(3):
            nursery.start_soon(partial(one, client))
    assert len(texts) == 3
    assert all(answer and text.startswith(answer) for answer in texts)
