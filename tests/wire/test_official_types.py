"""The official client reads our answers, and puts a stream together to the plain answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from headrace.http.wire import openai_chat, openai_completions
from headrace.http.wire.asking import Stamp
from headrace.runtime.testing.runs import merging, runs
from headrace.runtime.testing.wires import chunks, complete, streamed

STAMP = Stamp("req_1", "1", seed=7, created=1760000000)


@given(st.data(), st.integers(1, 3), st.booleans())
def test_a_chat_stream_is_the_plain_answer_l4_m1_f7(
    data: st.DataObject, n: int, scored: bool
) -> None:
    run = data.draw(runs(n=n, scored=scored))
    body = {"messages": [{"role": "user", "content": "Hi"}], "n": n, "logprobs": scored}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    asked = openai_chat.parse(body, STAMP)
    seen = chunks(streamed(asked, data.draw(merging(run))))
    whole = complete(asked, data.draw(merging(run)))

    state = ChatCompletionStreamState()
    for chunk in seen:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk, strict=True))
    joined = state.current_completion_snapshot.model_dump()
    ChatCompletion.model_validate(whole, strict=True)
    assert usage(joined) == usage(whole)
    for choice, expected in zip(joined["choices"], whole["choices"], strict=True):
        assert chat_choice(choice) == chat_choice(expected)


def usage(answer: dict[str, Any]) -> tuple[int, int]:
    return answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]


def chat_choice(choice: dict[str, Any]) -> dict[str, Any]:
    """What both renderings must have in common."""
    said = choice["message"]
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in said.get("tool_calls") or ()
    ]
    scores = [
        {key: entry[key] for key in ("token", "logprob", "bytes")}
        for entry in (choice["logprobs"] or {"content": ()})["content"] or ()
    ]
    return {
        "index": choice["index"],
        "content": said["content"] or "",
        "reasoning": said.get("reasoning_content", ""),
        "calls": calls,
        "scores": scores,
        "finish_reason": choice["finish_reason"],
    }


@given(st.data(), st.integers(1, 3), st.sampled_from([None, 0, 2]), st.booleans())
def test_a_completion_stream_is_the_plain_answer_f7(
    data: st.DataObject, n: int, alternatives: int | None, echo: bool
) -> None:
    run = data.draw(runs(n=n, scored=alternatives is not None, plain=True))
    body = {"prompt": "Hí", "n": n, "logprobs": alternatives, "stream": True}
    asked = openai_completions.parse(body | {"echo": echo and alternatives is None}, STAMP)
    seen = chunks(streamed(asked, data.draw(merging(run))))
    whole = complete(asked, data.draw(merging(run)))
    Completion.model_validate(whole, strict=True)
    for chunk in seen:
        check_completion_chunk(chunk)
    for expected in whole["choices"]:
        pieces = [c for chunk in seen for c in chunk["choices"] if c["index"] == expected["index"]]
        assert "".join(piece["text"] for piece in pieces) == expected["text"]
        assert pieces[-1]["finish_reason"] == expected["finish_reason"]
        assert (expected["logprobs"] is None) == (alternatives is None)
        assert scores_of(pieces) == scores_of([expected])


def check_completion_chunk(chunk: dict[str, Any]) -> None:
    """The client reads chunks as whole answers, whose reason is never null."""
    (choice,) = chunk["choices"]
    ended = choice | {"finish_reason": choice["finish_reason"] or "stop"}
    Completion.model_validate(chunk | {"choices": [ended]}, strict=True)


def scores_of(pieces: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The four lists, joined; empty where nothing was scored."""
    found = [piece["logprobs"] for piece in pieces if piece["logprobs"] is not None]
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return {name: [item for scores in found for item in scores[name] or ()] for name in names}
