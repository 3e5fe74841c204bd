"""Both ways out of a chat completion, and that they say the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.asking import Stamp
from headrace.http.wire.openai_chat import Chat, parse
from headrace.runtime.contracts import (
    Accepted,
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    Usage,
    Warning_,
)
from headrace.runtime.errors import Code, ErrorInfo, RequestError

STAMP = Stamp("req_1", "1", seed=7, created=1760000000)
ACCEPTED = Accepted("m", 9, 50, "fp_0123456789ab")
CLAMPED = Warning_("max_tokens_clamped", "the cap is 50 tokens", "max_tokens")
EARLY = Warning_("stopped_early", "the time limit was reached")
FINISHED = Finished("stop", Usage(9, 2), matched_stop="END")
FAILED = Failed(ErrorInfo(Code.CLOSED, "The server is closing.", details={"more": 1}))
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 2,
    "total_tokens": 11,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
    "lane": "batched",
}


def chat(**fields: Any) -> Chat:
    return parse({"messages": [{"role": "user", "content": "Hi"}], **fields}, STAMP)


def streamed(events: Sequence[Event], *, include_usage: bool = False) -> str:
    stream = chat(stream=True, stream_options={"include_usage": include_usage}).stream()
    return b"".join(frame for event in events for frame in stream.feed(event)).decode()


def chunks(text: str) -> list[dict[str, Any]]:
    """The JSON of every frame; `[DONE]` is left out."""
    frames = [frame.removeprefix("data: ") for frame in text.split("\n\n") if frame]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


def test_a_stream_to_the_byte() -> None:
    head = (
        'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,'
        '"model":"m","system_fingerprint":"fp_0123456789ab","choices":['
    )
    usage = json.dumps(USAGE, separators=(",", ":"))
    assert streamed([ACCEPTED, Delta("Hé"), FINISHED], include_usage=True) == "".join(
        [
            head + '{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,'
            '"finish_reason":null}],"usage":null}\n\n',
            head + '{"index":0,"delta":{"content":"Hé"},"logprobs":null,'
            '"finish_reason":null}],"usage":null}\n\n',
            head + '{"index":0,"delta":{},"logprobs":null,'
            '"finish_reason":"stop","matched_stop":"END"}],"usage":null}\n\n',
            head + f'],"usage":{usage}}}\n\n',
            "data: [DONE]\n\n",
        ]
    )


def test_without_being_asked_no_chunk_speaks_of_usage_h1() -> None:
    text = streamed([ACCEPTED, Delta("Hi"), FINISHED])
    assert "usage" not in text
    assert all(chunk["choices"] for chunk in chunks(text))


def test_an_error_is_the_last_frame_and_done_does_not_follow() -> None:
    text = streamed([ACCEPTED, Delta("Hi"), FAILED])
    error = {
        "message": "The server is closing.",
        "type": "server_closing",
        "param": None,
        "code": "closed",
    }
    assert chunks(text)[-1] == {"error": error}
    assert "[DONE]" not in text
    assert "Hi" in text


def test_warnings_come_with_the_first_chunk_and_an_early_stop_with_the_last() -> None:
    accepted = Accepted("m", 9, 50, "fp_0123456789ab", (CLAMPED,))
    finished = Finished("length", Usage(9, 2), warnings=(EARLY,))
    first, *_, last = chunks(streamed([accepted, Delta("Hi"), Delta("!"), finished]))
    assert [warning["code"] for warning in first["warnings"]] == ["max_tokens_clamped"]
    assert [warning["code"] for warning in last["warnings"]] == ["stopped_early"]
    whole = chat().complete([accepted, Delta("Hi"), finished])
    assert [warning["code"] for warning in whole["warnings"]] == [
        "max_tokens_clamped",
        "stopped_early",
    ]


def test_a_whole_answer() -> None:
    assert chat().complete([ACCEPTED, Delta("H"), Delta("i"), FINISHED]) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1760000000,
        "model": "m",
        "system_fingerprint": "fp_0123456789ab",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
                "matched_stop": "END",
            }
        ],
        "usage": USAGE,
    }


def test_a_failed_run_has_no_answer() -> None:
    with pytest.raises(RequestError) as caught:
        chat().complete([ACCEPTED, Delta("Hi"), FAILED])
    assert caught.value.info == FAILED.error


reasons: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(texts, max_size=8), reasons, st.booleans())
def test_a_stream_says_what_the_whole_answer_says_p7(
    parts: list[str], reason: FinishReason, include_usage: bool
) -> None:
    events: list[Event] = [ACCEPTED, *map(Delta, parts), Finished(reason, Usage(9, len(parts)))]
    text = streamed(events, include_usage=include_usage)
    assert text.endswith("data: [DONE]\n\n")
    whole = chat().complete(events)
    seen = chunks(text)
    body = seen[:-1] if include_usage else seen
    choices = [chunk["choices"][0] for chunk in body]
    content = "".join(choice["delta"].get("content", "") for choice in choices)
    assert content == whole["choices"][0]["message"]["content"]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [reason]
    assert {chunk["id"] for chunk in seen} == {whole["id"]}
    assert all(("usage" in chunk) == include_usage for chunk in seen)
    if include_usage:
        assert seen[-1]["choices"] == []
        assert seen[-1]["usage"] == whole["usage"]


@given(texts)
def test_a_frame_is_one_data_line(text: str) -> None:
    # A raw line break inside the JSON would end the frame early.
    for frame in streamed([ACCEPTED, Delta(text), FINISHED]).split("\n\n")[:-1]:
        assert frame.startswith("data: ")
        assert "\n" not in frame
        assert "\r" not in frame
