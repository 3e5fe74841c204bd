"""A run of events through a protocol's two renderings, and a stream read back as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from headrace.http.wire.asking import Asked
from headrace.http.wire.merged import Merged
from headrace.runtime.contracts import Event


def whole_run(asked: Asked, events: Iterable[Event]) -> list[Event]:
    """What the edge makes of the run of a single prompt."""
    merged = Merged(1, asked.requests[0].n)
    return [after for event in events for after in merged.feed(0, event)]


def streamed(asked: Asked, events: Iterable[Event]) -> str:
    """The run as a stream."""
    stream = asked.stream()
    return b"".join(f for event in whole_run(asked, events) for f in stream.feed(event)).decode()


def complete(asked: Asked, events: Iterable[Event]) -> dict[str, Any]:
    """The run as a plain answer, as its client reads it."""
    answer: dict[str, Any] = json.loads(json.dumps(asked.complete(whole_run(asked, events))))
    return answer


def frames(text: str) -> list[str]:
    """The data of every frame; each is one line, and nothing is left over."""
    assert text.endswith("\n\n"), f"the stream is cut: {text[-80:]!r}"
    listed = text.removesuffix("\n\n").split("\n\n")
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in listed)
    return [frame.removeprefix("data: ") for frame in listed]


def named_frames(text: str) -> list[dict[str, Any]]:
    """The JSON of every frame of a stream whose frames name their event twice."""
    found = []
    for frame in text.removesuffix("\n\n").split("\n\n"):
        name, data = frame.split("\n")
        value: dict[str, Any] = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


def chunks(text: str) -> list[dict[str, Any]]:
    """The JSON of every frame but `[DONE]`, which may only be the last."""
    data = frames(text)
    if data[-1] == "[DONE]":
        data.pop()
    return [json.loads(frame) for frame in data]
