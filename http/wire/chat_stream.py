"""The event stream of a chat completion (wire contract 4.3)."""

from __future__ import annotations

from typing import Any

from headrace.http.wire.asking import SoFar
from headrace.http.wire.call_ids import CallIds
from headrace.http.wire.errors import error_object
from headrace.http.wire.frames import KEEP_ALIVE, frame
from headrace.http.wire.openai_answer import Chunks, finish_members
from headrace.http.wire.openai_logprobs import chat_scores
from headrace.runtime.contracts import (
    Accepted,
    CallArguments,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
)


class ChatStream:
    """For each choice a role chunk, delta chunks and a finish chunk; then perhaps a usage chunk,
    and `[DONE]`; or an error and nothing more."""

    def __init__(self, chunks: Chunks, call_ids: CallIds, choices: int) -> None:
        self._chunks = chunks
        self._call_ids = call_ids
        self._choices = choices

    def sign_of_life(self, so_far: SoFar) -> bytes:
        return KEEP_ALIVE

    def feed(self, event: Event) -> list[bytes]:
        match event:
            case Delta(text=text, choice=choice, scored=scored) if text or scored:
                logprobs = chat_scores(scored) if scored else None
                return [self._chunks.chunk(_choice(choice, {"content": text}, logprobs))]
            case Accepted():
                self._chunks.begin(event)
                return [self._role(index) for index in range(self._choices)]
            case ReasoningDelta(text=text, choice=choice) if text:
                return [self._delta(choice, {"reasoning_content": text, "reasoning": text})]
            case CallStarted():
                return [self._call(event.choice, event.call, self._opening(event))]
            case CallArguments(text=text) if text:
                return [self._call(event.choice, event.call, {"function": {"arguments": text}})]
            case ChoiceEnded():
                ended = _choice(event.choice, {}) | finish_members(event)
                return [self._chunks.chunk(ended, event.warnings)]
            case Finished():
                return self._chunks.end(event)
            case Failed(error=error):
                return [frame({"error": error_object(error)})]
            case _:
                return []

    def _role(self, choice: int) -> bytes:
        return self._delta(choice, {"role": "assistant", "content": ""})

    def _opening(self, started: CallStarted) -> dict[str, Any]:
        """Said once: clients join what they get more than once."""
        return {
            "id": self._call_ids.of(started.choice, started.call),
            "type": "function",
            "function": {"name": started.name, "arguments": ""},
        }

    def _call(self, choice: int, call: int, members: dict[str, Any]) -> bytes:
        return self._delta(choice, {"tool_calls": [{"index": call, **members}]})

    def _delta(self, choice: int, delta: dict[str, Any]) -> bytes:
        return self._chunks.chunk(_choice(choice, delta))


def _choice(
    index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
