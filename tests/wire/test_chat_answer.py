"""Both ways out of a chat completion, and that they say the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.wire.asking import Stamp
from headrace.http.wire.openai_chat import Chat, parse
from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    Usage,
    Warning_,
)
from headrace.runtime.errors import Code, ErrorInfo, RequestError
from headrace.runtime.testing.runs import merging, runs
from headrace.runtime.testing.wires import chunks, complete, frames, streamed

STAMP = Stamp("req_1", "1", seed=7, created=1760000000)
ACCEPTED = Accepted("m", 9, 50, "fp_0123456789ab")
CLAMPED = Warning_("max_tokens_clamped", "the cap is 50 tokens", "max_tokens")
EARLY = Warning_("stopped_early", "the time limit was reached")
FINISHED = Finished("stop", Usage(9, 2), matched_stop="END")
FAILED = Failed(ErrorInfo(Code.CLOSED, "The server is closing."))
CALL: list[Event] = [CallStarted(0, "add"), CallArguments(0, '{"a":1}'), CallEnded(0)]
CALLED: list[Event] = [*CALL, ChoiceEnded("tool_calls"), Finished("tool_calls", Usage(9, 5))]


def chat(**fields: Any) -> Chat:
    return parse({"messages": [{"role": "user", "content": "Hi"}], **fields}, STAMP)


def message(events: Sequence[Event]) -> dict[str, Any]:
    answer: dict[str, Any] = complete(chat(), events)["choices"][0]["message"]
    return answer


class TestWhole:
    def test_an_answer(self) -> None:
        assert complete(chat(), [ACCEPTED, Delta("H"), Delta("i"), FINISHED]) == {
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
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "total_tokens": 11,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
                "lane": "batched",
            },
        }

    def test_an_answer_that_says_nothing_is_empty_text(self) -> None:
        assert message([ACCEPTED, FINISHED])["content"] == ""
        assert message([ACCEPTED, ReasoningDelta("Hm"), FINISHED])["content"] == ""

    def test_content_is_null_only_beside_calls(self) -> None:
        said = message([ACCEPTED, *CALLED])
        (call,) = said["tool_calls"]
        assert said["content"] is None
        assert call["function"] == {"name": "add", "arguments": '{"a":1}'}
        assert message([ACCEPTED, Delta("I add."), *CALLED])["content"] == "I add."

    def test_reasoning_and_calls_are_there_only_when_there_are_any(self) -> None:
        assert set(message([ACCEPTED, Delta("Hi"), FINISHED])) == {"role", "content", "refusal"}
        said = message([ACCEPTED, ReasoningDelta("H"), ReasoningDelta("m"), FINISHED])
        assert said["reasoning"] == said["reasoning_content"] == "Hm"

    def test_a_call_that_was_cut_has_what_came_of_it_l5(self) -> None:
        cut: list[Event] = [
            CallStarted(0, "add"),
            CallArguments(0, '{"a'),
            Finished("length", Usage(9, 3)),
        ]
        answer = complete(chat(), [ACCEPTED, *cut])
        (choice,) = answer["choices"]
        assert choice["finish_reason"] == "length"
        assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"a'

    def test_several_choices(self) -> None:
        events: list[Event] = [
            ACCEPTED,
            Delta("b", choice=1),
            Delta("a", choice=0),
            ChoiceEnded("length", choice=1),
            ChoiceEnded("stop", "x", 0),
            Finished("stop", Usage(9, 2), "x"),
        ]
        choices = complete(chat(n=2), events)["choices"]
        assert [(c["index"], c["message"]["content"]) for c in choices] == [(0, "a"), (1, "b")]
        ends = [(c["finish_reason"], c["matched_stop"]) for c in choices]
        assert ends == [("stop", "x"), ("length", None)]

    def test_scores_are_there_when_they_were_asked_for(self) -> None:
        events: list[Event] = [ACCEPTED, FINISHED]
        assert complete(chat(), events)["choices"][0]["logprobs"] is None
        asked = complete(chat(logprobs=True), events)["choices"][0]["logprobs"]
        assert asked == {"content": [], "refusal": None}

    def test_the_stop_that_ended_it_is_named_g4(self) -> None:
        events: list[Event] = [ACCEPTED, ChoiceEnded("stop", "\n6"), FINISHED]
        assert complete(chat(), events)["choices"][0]["matched_stop"] == "\n6"
        *_, last = chunks(streamed(chat(stream=True), events))
        assert last["choices"][0]["matched_stop"] == "\n6"

    def test_reasoning_is_counted_in_tokens_h11(self) -> None:
        usage = Usage(9, 7, cached_tokens=4, reasoning_tokens=5)
        answer = complete(chat(), [ACCEPTED, ReasoningDelta("Hm"), Finished("length", usage)])
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 5}
        assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}

    def test_a_failed_run_has_no_answer(self) -> None:
        with pytest.raises(RequestError) as caught:
            chat().complete([ACCEPTED, Delta("Hi"), FAILED])
        assert caught.value.info == FAILED.error


class TestWarnings:
    def test_they_come_with_the_first_chunk_and_with_the_end(self) -> None:
        accepted = attrs.evolve(ACCEPTED, warnings=(CLAMPED,))
        finished = Finished("length", Usage(9, 2), warnings=(EARLY,))
        events: list[Event] = [accepted, Delta("Hi"), Delta("!"), finished]
        told = [
            [warning["code"] for warning in chunk.get("warnings", ())]
            for chunk in chunks(streamed(chat(stream=True), events))
        ]
        assert told == [["max_tokens_clamped"], [], [], ["stopped_early"]]
        whole = complete(chat(), events)
        codes = [warning["code"] for warning in whole["warnings"]]
        assert codes == ["max_tokens_clamped", "stopped_early"]

    def test_an_early_end_is_told_to_those_who_were_not_done(self) -> None:
        finished = Finished("length", Usage(9, 2), warnings=(EARLY,))
        events: list[Event] = [
            ACCEPTED,
            ChoiceEnded("stop", choice=0),
            Delta("b", choice=1),
            finished,
        ]
        ends = {
            chunk["choices"][0]["index"]: (
                chunk["choices"][0]["finish_reason"],
                "warnings" in chunk,
            )
            for chunk in chunks(streamed(chat(stream=True, n=2), events))
        }
        assert ends == {0: ("stop", False), 1: ("length", True)}


class TestIds:
    IDS = re.compile(r"call_[0-9a-f]{24}")

    def test_ids_of_calls_are_the_same_however_the_answer_is_rendered(self) -> None:
        events: list[Event] = [ACCEPTED, *CALL, CallStarted(1, "add"), CallEnded(1), *CALLED[-2:]]
        stream = self.IDS.findall(streamed(chat(stream=True), events))
        whole = [call["id"] for call in message(events)["tool_calls"]]
        assert stream == whole
        assert len(set(whole)) == 2
        assert all(self.IDS.fullmatch(call_id) for call_id in whole)

    def test_no_two_requests_share_them(self) -> None:
        other = attrs.evolve(STAMP, token="2")
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        asked = [chat(), parse(body, other)]
        ids = {
            complete(a, [ACCEPTED, *CALLED])["choices"][0]["message"]["tool_calls"][0]["id"]
            for a in asked
        }
        assert len(ids) == 2


def test_without_being_asked_no_chunk_speaks_of_usage_h1() -> None:
    text = streamed(chat(stream=True), [ACCEPTED, Delta("Hi"), FINISHED])
    assert "usage" not in text
    assert all(chunk["choices"] for chunk in chunks(text))


def test_an_error_is_the_last_frame_and_done_does_not_follow() -> None:
    text = streamed(chat(stream=True), [ACCEPTED, Delta("Hi"), FAILED])
    error = {
        "message": "The server is closing.",
        "type": "server_closing",
        "param": None,
        "code": "closed",
    }
    assert chunks(text)[-1] == {"error": error}
    assert "[DONE]" not in text
    assert "Hi" in text


@given(st.data(), st.integers(1, 3), st.booleans(), st.booleans())
def test_a_stream_is_what_the_contract_draws_h8_h9_l1_l2_l3(
    data: st.DataObject, n: int, scored: bool, include_usage: bool
) -> None:
    events = data.draw(runs(n=n, scored=scored).flatmap(merging))
    asked = chat(stream=True, n=n, logprobs=scored, stream_options={"include_usage": include_usage})
    text = streamed(asked, events)
    assert frames(text)[-1] == "[DONE]"
    seen = chunks(text)
    heads = [{k: chunk[k] for k in list(chunk)[:5]} for chunk in seen]
    assert all(head == heads[0] for head in heads)
    assert all(("usage" in chunk) == include_usage for chunk in seen)
    if include_usage:
        assert seen.pop()["choices"] == []
        assert all(chunk["usage"] is None for chunk in seen)
    choices = [chunk["choices"][0] for chunk in seen]
    assert all(len(chunk["choices"]) == 1 for chunk in seen)
    for index in range(n):
        check_choice([choice for choice in choices if choice["index"] == index])


def check_choice(chunks_: list[dict[str, Any]]) -> None:
    first, *middle, last = chunks_
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert (last["delta"], "matched_stop" in last) == ({}, True)
    assert last["finish_reason"] in {"stop", "length", "tool_calls"}
    assert [chunk["finish_reason"] for chunk in (first, *middle)] == [None] * (len(chunks_) - 1)
    begun = 0
    for chunk in middle:
        kinds = set(chunk["delta"])
        assert kinds in ({"content"}, {"reasoning_content", "reasoning"}, {"tool_calls"})
        for call in chunk["delta"].get("tool_calls", ()):
            if "id" in call:
                assert list(call) == ["index", "id", "type", "function"]
                assert (call["index"], call["function"]["arguments"]) == (begun, "")
                begun += 1
            else:
                assert list(call) == ["index", "function"]
                assert list(call["function"]) == ["arguments"]
                assert 0 <= call["index"] < begun


@given(st.sampled_from(["stop", "length"]), st.text(max_size=5))
def test_a_frame_is_one_data_line(reason: FinishReason, text: str) -> None:
    # A raw line break inside the JSON would end the frame early.
    for separator in ("\n", "\r", "\u2028", text):
        said = separator.encode(errors="ignore").decode()
        events: list[Event] = [ACCEPTED, Delta(f"a{said}b"), Finished(reason, Usage(9, 1))]
        for frame in streamed(chat(stream=True), events).split("\n\n")[:-1]:
            assert frame.startswith("data: ")
            assert "\n" not in frame
            assert "\r" not in frame
