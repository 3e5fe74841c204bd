"""Both ways out of a plain completion."""

from __future__ import annotations

from typing import Any

import attrs

from headrace.http.wire.asking import Stamp
from headrace.http.wire.merged import Merged
from headrace.http.wire.openai_completions import Completion, parse
from headrace.runtime.contracts import (
    Accepted,
    ChoiceEnded,
    Delta,
    Event,
    Finished,
    ScoredToken,
    TokenLogprob,
    Usage,
    Warning_,
)
from headrace.runtime.testing.wires import chunks, complete, frames, streamed

STAMP = Stamp("req_1", "1", seed=7, created=1760000000)
ACCEPTED = Accepted("m", 9, 50, "fp_0123456789ab")
CLAMPED = Warning_("max_tokens_clamped", "the cap is 50 tokens", "max_tokens")
FINISHED = Finished("length", Usage(9, 2))
WORLD = Delta(" world", scored=(ScoredToken(TokenLogprob(b" world", -0.5)),))


def completion(prompt: Any = "Hello", **fields: Any) -> Completion:
    return parse({"prompt": prompt, **fields}, STAMP)


def merge(asked: Completion, *parts: tuple[int, Event]) -> list[Event]:
    merged = Merged(len(asked.requests), asked.requests[0].n)
    return [after for prompt, event in parts for after in merged.feed(prompt, event)]


def test_an_answer() -> None:
    assert complete(completion(), [ACCEPTED, Delta(" wor"), Delta("ld"), FINISHED]) == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1760000000,
        "model": "m",
        "system_fingerprint": "fp_0123456789ab",
        "choices": [
            {
                "index": 0,
                "text": " world",
                "logprobs": None,
                "finish_reason": "length",
                "matched_stop": None,
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
            "lane": "batched",
        },
    }


def test_the_stop_that_ended_it_is_named_g4() -> None:
    events: list[Event] = [ACCEPTED, ChoiceEnded("stop", "\n6"), FINISHED]
    assert complete(completion(), events)["choices"][0]["matched_stop"] == "\n6"
    *_, last = chunks(streamed(completion(stream=True), events))
    assert last["choices"][0]["matched_stop"] == "\n6"


def test_the_prompt_comes_first_where_it_is_asked_for_f9() -> None:
    asked = completion(echo=True, stream=True)
    events: list[Event] = [ACCEPTED, Delta(" world"), FINISHED]
    assert complete(asked, events)["choices"][0]["text"] == "Hello world"
    texts = [chunk["choices"][0]["text"] for chunk in chunks(streamed(asked, events))]
    assert texts == ["Hello", " world", ""]


def test_answers_of_several_prompts_stand_in_the_order_of_the_prompts() -> None:
    asked = completion(["a", "b"], n=2, echo=True, stream=True)
    run = merge(
        asked,
        (1, ACCEPTED),
        (1, Delta("3", choice=1)),
        (0, ACCEPTED),
        (0, Delta("0", choice=0)),
        (1, Delta("2", choice=0)),
        (1, Finished("stop", Usage(1, 2))),
        (0, Delta("1", choice=1)),
        (0, Finished("length", Usage(1, 2))),
    )
    whole = asked.complete(run)
    assert [choice["text"] for choice in whole["choices"]] == ["a0", "a1", "b2", "b3"]
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    assert whole["usage"]["total_tokens"] == 6
    stream = asked.stream()
    seen = chunks(b"".join(f for event in run for f in stream.feed(event)).decode())
    assert {chunk["id"] for chunk in seen} == {"cmpl-1"}
    texts = ["", "", "", ""]
    for chunk in seen:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == ["a0", "a1", "b2", "b3"]
    ends = [c["choices"][0]["index"] for c in seen if c["choices"][0]["finish_reason"]]
    assert sorted(ends) == [0, 1, 2, 3]


def test_a_warning_about_a_later_prompt_goes_with_the_next_chunk() -> None:
    asked = completion(["a", "b"], stream=True)
    late = attrs.evolve(ACCEPTED, warnings=(CLAMPED,))
    run = merge(asked, (0, ACCEPTED), (0, Delta("x")), (1, late), (1, Delta("y")), (0, Delta("z")))
    stream = asked.stream()
    seen = chunks(b"".join(f for event in run for f in stream.feed(event)).decode())
    assert ["warnings" in chunk for chunk in seen] == [False, True, False]


def test_usage_is_one_for_all_and_only_when_asked_for_h1() -> None:
    events: list[Event] = [ACCEPTED, WORLD, FINISHED]
    silent = streamed(completion(stream=True), events)
    assert "usage" not in silent
    asked = completion(stream=True, stream_options={"include_usage": True})
    *rest, last = chunks(streamed(asked, events))
    assert all(chunk["usage"] is None for chunk in rest)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 2)
    assert frames(streamed(asked, events))[-1] == "[DONE]"


def test_scores_have_four_lists_of_equal_length_f7() -> None:
    whole = complete(completion(logprobs=0), [ACCEPTED, WORLD, ChoiceEnded("length"), FINISHED])
    assert whole["choices"][0]["logprobs"] == {
        "tokens": [" world"],
        "token_logprobs": [-0.5],
        "top_logprobs": None,
        "text_offset": [0],
    }
    nothing = complete(completion(logprobs=1), [ACCEPTED, FINISHED])
    empty: list[Any] = []
    assert nothing["choices"][0]["logprobs"] == {
        "tokens": empty,
        "token_logprobs": empty,
        "top_logprobs": empty,
        "text_offset": empty,
    }
