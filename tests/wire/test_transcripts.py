"""Whole streams to the byte, next to what they were made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from headrace.http.wire import openai_chat, openai_completions
from headrace.http.wire.asking import Asked, Stamp
from headrace.http.wire.call_ids import CallIds
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
    ScoredToken,
    TokenLogprob,
    Usage,
    Warning_,
)
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.testing.wires import streamed

FOLDER = Path(__file__).parent / "transcripts"
CALL_ID = CallIds("1").of(0, 0)
STAMP = Stamp("req_1", "1", seed=7, created=1760000000)
ACCEPTED = Accepted("m", 30, 50, "fp_0123456789ab")
CLAMPED = Warning_("max_tokens_clamped", "the cap is 50 tokens", "max_tokens")


def chat(**fields: Any) -> Asked:
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, **fields}
    return openai_chat.parse(body, STAMP)


def completion(**fields: Any) -> Asked:
    return openai_completions.parse({"prompt": "Hello", "stream": True, **fields}, STAMP)


def scored(raw: bytes, logprob: float, *others: tuple[bytes, float]) -> ScoredToken:
    top = tuple(TokenLogprob(*other) for other in others)
    return ScoredToken(TokenLogprob(raw, logprob), top)


CALL: list[Event] = [
    ACCEPTED,
    CallStarted(0, "add"),
    CallArguments(0, '{"a":1}'),
    CallEnded(0),
    ChoiceEnded("tool_calls"),
    Finished("tool_calls", Usage(30, 9)),
]
WORLD: list[Event] = [
    ACCEPTED,
    Delta(" world", scored=(scored(b" world", -0.5, (b" world", -0.5)),)),
    ChoiceEnded("length"),
    Finished("length", Usage(30, 1)),
]
THINKING: list[Event] = [
    attrs.evolve(ACCEPTED, warnings=(CLAMPED,)),
    ReasoningDelta("Add", choice=0),
    ReasoningDelta("Hm", choice=1),
    Delta("I add.", choice=0),
    CallStarted(0, "add", 0),
    Delta("Hé", choice=1),
    CallArguments(0, '{"a"', choice=0),
    CallArguments(0, ":1}", choice=0),
    CallEnded(0, 0),
    CallStarted(1, "now", 0),
    CallEnded(1, 0),
    ChoiceEnded("tool_calls", choice=0),
    CallStarted(0, "add", 1),
    CallArguments(0, '{"a":', choice=1),
    ChoiceEnded("length", choice=1),
    Finished("tool_calls", Usage(30, 40, reasoning_tokens=2)),
]
FAMILY = "\N{WOMAN}\N{ZERO WIDTH JOINER}".encode()
SCORES: list[Event] = [
    ACCEPTED,
    Delta("a", scored=(scored(b"a", -0.25, (b"a", -0.25), (b"\xf0", -float("inf"))),)),
    Delta(
        "\N{WOMAN}\N{ZERO WIDTH JOINER}",
        2,
        scored=(scored(FAMILY[:3], -1.5, (b"", -1.0)), scored(FAMILY[3:], 0.0)),
    ),
    ChoiceEnded("stop", "END"),
    Finished("stop", Usage(30, 4), "END"),
]
FAILED: list[Event] = [
    ACCEPTED,
    Delta("Hi"),
    Failed(ErrorInfo(Code.CLOSED, "The server is closing.", details={"more": 1})),
]
EARLY: list[Event] = [
    ACCEPTED,
    Delta("Hi"),
    Finished(
        "length", Usage(30, 1), warnings=(Warning_("stopped_early", "the time limit was reached"),)
    ),
]
USAGE = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("name", "ask", "events"),
    [
        ("chat_call", lambda: chat(**USAGE), CALL),
        ("chat_thinking", lambda: chat(n=2), THINKING),
        ("chat_scored", lambda: chat(logprobs=True, top_logprobs=2), SCORES),
        ("chat_failed", lambda: chat(**USAGE), FAILED),
        ("chat_early", chat, EARLY),
        ("completion_scored", lambda: completion(logprobs=1), WORLD),
        ("completion_bytes", lambda: completion(logprobs=2), SCORES),
        ("completion_echo", lambda: completion(echo=True, **USAGE), EARLY),
    ],
)
def test_a_stream_to_the_byte(name: str, ask: Callable[[], Asked], events: list[Event]) -> None:
    expected = (FOLDER / f"{name}.sse").read_text()
    # Ids of calls come from a hash; what a client can rely on is tested elsewhere.
    shown = streamed(ask(), events).replace(CALL_ID, "call_1")
    assert shown == expected
