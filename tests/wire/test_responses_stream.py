"""Responses and their streams, read with the official client's own types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from headrace.http.wire import openai_responses
from headrace.http.wire.asking import SoFar, Stamp
from headrace.http.wire.openai_responses import AskedResponse, Known
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
    ReasoningDelta,
    Usage,
    Warning_,
)
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.testing.runs import ACCEPTED, merging, runs
from headrace.runtime.testing.wires import complete, named_frames, streamed

STAMP = Stamp("req_1", "0123456789abcdef" * 2, seed=7, created=1760000000)
KNOWN = Known(clock=lambda: 1760000009.5)
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SPACE = {"type": "namespace", "name": "days", "tools": [{"type": "function", "name": "set"}]}
PATCH = {"type": "custom", "name": "patch"}


def asked(**fields: Any) -> AskedResponse:
    return openai_responses.parse({"input": "Hi", "stream": True} | fields, STAMP, KNOWN)


def read(text: str) -> list[dict[str, Any]]:
    """The data of each frame, which has the next number."""
    found = named_frames(text)
    assert [value["sequence_number"] for value in found] == list(range(len(found)))
    return found


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


@given(st.data(), st.booleans(), st.sampled_from([None, "auto"]))
def test_a_stream_is_the_plain_answer_and_both_are_the_clients_l4_m1_o4(
    data: st.DataObject, scored: bool, summary: str | None
) -> None:
    run = data.draw(runs(scored=scored))
    fields = {"top_logprobs": 2 if scored else 0, "reasoning": {"summary": summary}}
    seen = read(streamed(asked(**fields), data.draw(merging(run))))
    whole = complete(asked(**fields), data.draw(merging(run)))
    Response.model_validate(whole, strict=True)
    for event in seen:
        EVENT.validate_python(event)
    assert kinds(seen)[:2] == ["created", "in_progress"]
    assert kinds(seen)[-1] == whole["status"]
    assert seen[-1]["response"] == whole
    assert rebuilt(seen) == whole["output"]


def rebuilt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The output as a client builds it from the stream; the deltas of each item are its text."""
    items: list[dict[str, Any]] = []
    text, said = "", ""
    for event in events:
        match event["type"].removeprefix("response.").split(".")[-1]:
            case "added" if "item" in event:
                assert event["output_index"] == len(items)
                text = said = ""
            case "delta":
                text += event["delta"]
            case "done" if "item" not in event and "part" not in event:
                said = event.get("text") or event.get("arguments") or event.get("input") or ""
                assert text == said
            case "done" if "item" in event:
                items.append(event["item"])
                assert said == text_of(event["item"])
    return items


def text_of(item: dict[str, Any]) -> str:
    parts = [*item.get("content", ()), *item.get("summary", ())]
    text = "".join(part["text"] for part in parts)
    return text or item.get("arguments") or item.get("input") or ""


CALLS: list[Event] = [
    ACCEPTED,
    ReasoningDelta("Hm"),
    Delta("Hi"),
    CallStarted(0, "days.set"),
    CallArguments(0, '{"a":'),
    CallArguments(0, "1}"),
    CallEnded(0),
    CallStarted(1, "patch"),
    CallArguments(1, '{"input": "a\\nb"}'),
    CallEnded(1),
    ChoiceEnded("tool_calls"),
    Finished("tool_calls", Usage(9, 12, cached_tokens=4, reasoning_tokens=2)),
]


def test_a_whole_stream_to_the_frame_l1_l2_o6() -> None:
    events = read(streamed(asked(tools=[SPACE, PATCH]), CALLS))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]
    response = events[-1]["response"]
    _, _, call, custom = response["output"]
    assert (call["namespace"], call["name"], call["arguments"]) == ("days", "set", '{"a":1}')
    assert (custom["type"], custom["input"]) == ("custom_tool_call", "a\nb")
    assert response["completed_at"] == 1760000009
    assert response["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 21,
        "lane": "batched",
    }


@pytest.mark.parametrize(("summary", "content"), [(None, True), ("auto", False)])
def test_reasoning_is_told_in_one_place(summary: str | None, content: bool) -> None:
    item = complete(asked(reasoning={"summary": summary}), CALLS)["output"][0]
    told = [part["text"] for part in item.get("content", ())]
    summed = [part["text"] for part in item["summary"]]
    assert (told, summed) == ((["Hm"], []) if content else ([], ["Hm"]))


def test_an_answer_that_was_cut_is_incomplete_h7_l5_o4() -> None:
    run: list[Event] = [
        ACCEPTED,
        CallStarted(0, "add"),
        CallArguments(0, '{"a": "x'),
        ChoiceEnded("length"),
        Finished("length", Usage(9, 50)),
    ]
    response = complete(asked(), run)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (response["output"][0]["arguments"], response["output"][0]["status"]) == (
        '{"a": "x',
        "incomplete",
    )
    assert kinds(read(streamed(asked(), run)))[-1] == "incomplete"


@pytest.mark.parametrize(
    ("code", "status", "ends"),
    [
        (Code.ENGINE_UNAVAILABLE, "failed", ["error", "failed"]),
        (Code.REQUEST_CANCELLED, "cancelled", ["output_text.delta", "failed"]),
    ],
)
def test_a_failure_has_its_own_end_o4_b1(code: Code, status: str, ends: list[str]) -> None:
    run: list[Event] = [ACCEPTED, Delta("Hi"), Failed(ErrorInfo(code, "It ended."))]
    events = read(streamed(asked(), run))
    for event in events:
        EVENT.validate_python(event)
    assert kinds(events)[-2:] == ends
    response = events[-1]["response"]
    assert (response["status"], response["output"][0]["status"]) == (status, "incomplete")
    assert response["output"][0]["content"][0]["text"] == "Hi"
    assert response["error"] == {"code": "server_error", "message": "It ended."}


class TestWaiting:
    def test_a_stream_begins_as_queued_h5(self) -> None:
        stream = asked().stream()
        assert stream.sign_of_life(SoFar()) == b": keep-alive\n\n"
        first = read(stream.sign_of_life(SoFar("m")).decode())
        assert kinds(first) == ["created", "queued"]
        assert {event["response"]["status"] for event in first} == {"queued"}
        assert stream.sign_of_life(SoFar("m", 9)) == b": keep-alive\n\n"
        (begun,) = stream.feed(ACCEPTED)
        assert b'"type":"response.in_progress","sequence_number":2' in begun

    def test_a_failure_after_that_is_numbered_on(self) -> None:
        stream = asked().stream()
        first = stream.sign_of_life(SoFar("m"))
        rest = stream.feed(Failed(ErrorInfo(Code.LOAD_FAILED, "No.")))
        assert kinds(read((first + b"".join(rest)).decode())) == [
            "created",
            "queued",
            "error",
            "failed",
        ]


def test_warnings_are_in_every_object() -> None:
    warning = Warning_("tool_dropped", "a tool was left out", "tools[0].type")
    run: list[Event] = [
        Accepted("m", 9, 50, "fp", (warning,)),
        Delta("Hi"),
        ChoiceEnded("stop"),
        Finished("stop", Usage(9, 1)),
    ]
    events = [event for event in read(streamed(asked(), run)) if "response" in event]
    assert {event["response"]["warnings"][0]["code"] for event in events} == {"tool_dropped"}
