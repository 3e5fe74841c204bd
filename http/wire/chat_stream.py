"""The event stream of a chat completion (wire contract 4.3)."""

from __future__ import annotations

from typing import Any

from headrace.http.wire.errors import error_object
from headrace.http.wire.frames import DONE, KEEP_ALIVE, frame
from headrace.http.wire.openai_answer import Head, finish_members, usage_object
from headrace.http.wire.warned import warning_member
from headrace.runtime.contracts import Accepted, Delta, Event, Failed, Finished


class ChatStream:
    """Role chunk, delta chunks, finish chunk, perhaps a usage chunk, `[DONE]`; or an error."""

    def __init__(self, head: Head, *, include_usage: bool) -> None:
        self._head = head
        self._include_usage = include_usage
        self._members: dict[str, Any] = {}

    @property
    def keep_alive(self) -> bytes:
        return KEEP_ALIVE

    def feed(self, event: Event) -> list[bytes]:
        match event:
            case Accepted():
                return [self._begin(event)]
            case Delta(text=text):
                return [self._chunk(_choice({"content": text}))] if text else []
            case Finished():
                return self._finish(event)
            case Failed(error=error):
                return [frame({"error": error_object(error)})]
            case _:
                return []

    def _begin(self, accepted: Accepted) -> bytes:
        self._members = self._head.members(accepted)
        role = _choice({"role": "assistant", "content": ""})
        return self._chunk(role, **warning_member(accepted.warnings))

    def _finish(self, finished: Finished) -> list[bytes]:
        last = _choice({}) | finish_members(finished)
        frames = [self._chunk(last, **warning_member(finished.warnings))]
        if self._include_usage:
            usage = usage_object(finished.usage)
            frames.append(frame({**self._members, "choices": [], "usage": usage}))
        return [*frames, DONE]

    def _chunk(self, choice: dict[str, Any], **more: Any) -> bytes:
        usage = {"usage": None} if self._include_usage else {}
        return frame({**self._members, "choices": [choice], **usage, **more})


def _choice(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
