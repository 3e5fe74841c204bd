"""Messages and their streams, read with the official client's own types."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headrace.http.wire import anthropic_messages
from headrace.http.wire.anthropic_messages import AskedMessage
from headrace.http.wire.asking import SoFar, Stamp
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
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
CLAMPED = Warning_("max_tokens_clamped", "the cap is 50 tokens", "max_tokens")


def asked(**fields: Any) -> AskedMessage:
    body = {"max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    return anthropic_messages.parse(body | fields, STAMP)


def put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the client's own helper makes of a stream, but for arguments that are no JSON."""
    snapshot: Any = None
    for event in events:
        if event["type"] == "ping":
            continue
        parsed = EVENT.validate_python(event)
        if event.get("delta", {}).get("type") != "input_json_delta":
            snapshot = accumulate_event(event=parsed, current_snapshot=snapshot, json_bufs={})
    whole: dict[str, Any] = snapshot.model_dump(exclude_unset=True)
    return whole


@given(st.data())
def test_a_stream_is_the_plain_answer_and_both_are_the_clients_l4_m1(data: st.DataObject) -> None:
    run = data.draw(runs())
    seen = named_frames(streamed(asked(), data.draw(merging(run))))
    whole = complete(asked(), data.draw(merging(run)))
    Message.model_validate(whole, strict=True)
    joined = put_together(seen)
    assert [shown(block) for block in joined["content"]] == [shown(b) for b in whole["content"]]
    for name in ("id", "model", "stop_reason", "stop_sequence"):
        assert joined[name] == whole[name]
    assert joined["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    assert well_formed(seen)


def shown(block: dict[str, Any]) -> Any:
    """A block without what the client's helper cannot know: arguments that are no object."""
    if block["type"] == "tool_use":
        return block["type"], block["id"], block["name"]
    return block["type"], block.get("text"), block.get("thinking")


def well_formed(events: list[dict[str, Any]]) -> bool:
    """The order of wire contract 6.3: one block after the other, nothing outside of them."""
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    number, opened = -1, False
    for event in events[2:-2]:
        if event["type"] == "content_block_start":
            number, opened = number + 1, not opened
            assert opened
        elif event["type"] == "content_block_stop":
            opened = not opened
            assert not opened
        assert event["index"] == number
    return not opened and number >= 0


def test_a_whole_stream_to_the_frame_l1_l2() -> None:
    run: list[Event] = [
        ACCEPTED,
        ReasoningDelta("Hm"),
        Delta("Hi"),
        CallStarted(0, "add"),
        CallArguments(0, '{"a":'),
        CallArguments(0, "1}"),
        CallEnded(0),
        CallStarted(1, "now"),
        CallEnded(1),
        ChoiceEnded("tool_calls"),
        Finished("tool_calls", Usage(9, 12, cached_tokens=4, reasoning_tokens=2)),
    ]
    events = named_frames(streamed(asked(), run))
    short = [
        (e["type"], e.get("index"), e.get("delta", {}).get("partial_json")) for e in events[2:]
    ]
    assert short == [
        ("content_block_start", 0, None),
        ("content_block_delta", 0, None),
        ("content_block_delta", 0, None),
        ("content_block_stop", 0, None),
        ("content_block_start", 1, None),
        ("content_block_delta", 1, None),
        ("content_block_stop", 1, None),
        ("content_block_start", 2, None),
        ("content_block_delta", 2, '{"a":'),
        ("content_block_delta", 2, "1}"),
        ("content_block_stop", 2, None),
        ("content_block_start", 3, None),
        ("content_block_delta", 3, "{}"),
        ("content_block_stop", 3, None),
        ("message_delta", None, None),
        ("message_stop", None, None),
    ]
    assert events[4]["delta"] == {"type": "signature_delta", "signature": ""}
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 12,
        "output_tokens_details": {"thinking_tokens": 2},
    }
    assert events[-2]["usage"] == complete(asked(), run)["usage"] == usage
    assert [block.get("input") for block in complete(asked(), run)["content"]] == [
        None,
        None,
        {"a": 1},
        {},
    ]


@pytest.mark.parametrize(
    ("ended", "accepted", "used", "expected"),
    [
        (ChoiceEnded("stop"), ACCEPTED, 3, ("end_turn", None)),
        (ChoiceEnded("stop", "END"), ACCEPTED, 3, ("stop_sequence", "END")),
        (ChoiceEnded("tool_calls"), ACCEPTED, 3, ("tool_use", None)),
        (ChoiceEnded("length"), ACCEPTED, 50, ("max_tokens", None)),
        (
            ChoiceEnded("length"),
            Accepted("m", 9, 20, "fp", (CLAMPED,)),
            20,
            ("model_context_window_exceeded", None),
        ),
        (ChoiceEnded("length"), Accepted("m", 9, 20, "fp"), 7, ("max_tokens", None)),
    ],
)
def test_why_it_ended_h7(ended: ChoiceEnded, accepted: Accepted, used: int, expected: Any) -> None:
    run: list[Event] = [accepted, Delta("Hi"), ended, Finished(ended.reason, Usage(9, used))]
    whole = complete(asked(), run)
    assert (whole["stop_reason"], whole["stop_sequence"]) == expected
    delta = named_frames(streamed(asked(), run))[-2]["delta"]
    assert (delta["stop_reason"], delta["stop_sequence"]) == expected


def test_a_call_that_was_cut_keeps_what_there_is_of_it_l5() -> None:
    run: list[Event] = [
        ACCEPTED,
        CallStarted(0, "add"),
        CallArguments(0, '{"a": "x'),
        ChoiceEnded("length"),
        Finished("length", Usage(9, 50)),
    ]
    whole = complete(asked(), run)
    assert whole["content"][0]["input"] == {"_raw": '{"a": "x'}
    assert whole["stop_reason"] == "max_tokens"
    assert well_formed(named_frames(streamed(asked(), run)))


@pytest.mark.parametrize("cap", [0, 50])
def test_an_answer_without_words_has_one_empty_block_if_it_was_to_speak(cap: int) -> None:
    run: list[Event] = [ACCEPTED, ChoiceEnded("length"), Finished("length", Usage(9, 0))]
    one = complete(asked(max_tokens=cap), run)
    assert [block["text"] for block in one["content"]] == ([""] if cap else [])
    starts = [e for e in named_frames(streamed(asked(max_tokens=cap), run)) if "content_block" in e]
    assert len(starts) == len(one["content"])


def test_thoughts_that_are_omitted_leave_an_empty_block() -> None:
    quiet = asked(thinking={"type": "adaptive", "display": "omitted"})
    run: list[Event] = [
        ACCEPTED,
        ReasoningDelta("Hm"),
        Delta("Hi"),
        ChoiceEnded("stop"),
        Finished("stop", Usage(9, 3)),
    ]
    assert complete(quiet, run)["content"][0]["thinking"] == ""
    assert "Hm" not in streamed(quiet, run)


class TestWaiting:
    def test_nothing_is_said_before_there_is_something_to_say(self) -> None:
        stream = asked().stream()
        assert stream.sign_of_life(SoFar()) == b": keep-alive\n\n"
        assert stream.sign_of_life(SoFar("m", 0)) == b": keep-alive\n\n"

    def test_a_stream_begins_with_its_count_as_soon_as_it_has_one_o2_h5(self) -> None:
        stream = asked().stream()
        first = named_frames(stream.sign_of_life(SoFar("m", 9)).decode())
        assert [event["type"] for event in first] == ["message_start", "ping"]
        assert first[0]["message"]["usage"]["input_tokens"] == 9
        assert named_frames(stream.sign_of_life(SoFar("m", 9)).decode()) == [{"type": "ping"}]
        # What is only known later comes with the end.
        assert stream.feed(Accepted("m", 9, 50, "fp", (CLAMPED,))) == []
        rest: list[Event] = [Delta("Hi"), ChoiceEnded("stop"), Finished("stop", Usage(9, 1))]
        end = named_frames(b"".join(f for event in rest for f in stream.feed(event)).decode())
        assert [w["code"] for w in end[-2]["warnings"]] == ["max_tokens_clamped"]

    def test_warnings_stand_in_the_first_message(self) -> None:
        run: list[Event] = [
            Accepted("m", 9, 50, "fp", (CLAMPED,)),
            Delta("Hi"),
            ChoiceEnded("stop"),
            Finished("stop", Usage(9, 1)),
        ]
        events = named_frames(streamed(asked(), run))
        assert events[0]["message"]["warnings"][0]["code"] == "max_tokens_clamped"
        assert "warnings" not in events[-2]
        assert complete(asked(), run)["warnings"] == events[0]["message"]["warnings"]


def test_a_failure_is_the_last_frame_b1() -> None:
    error = ErrorInfo(Code.ENGINE_UNAVAILABLE, "The engine died.")
    events = named_frames(streamed(asked(), [ACCEPTED, Delta("Hi"), Failed(error)]))
    assert [event["type"] for event in events[-2:]] == ["content_block_delta", "error"]
    assert events[-1]["error"]["type"] == "api_error"
    assert events[-1]["request_id"] == "req_1"
