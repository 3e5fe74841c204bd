"""The event stream of a plain completion (wire contract 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.http.wire.asking import SoFar
from headrace.http.wire.errors import error_object
from headrace.http.wire.frames import KEEP_ALIVE, frame
from headrace.http.wire.openai_answer import Chunks, finish_members
from headrace.http.wire.openai_logprobs import LegacyScores
from headrace.runtime.contracts import Accepted, ChoiceEnded, Delta, Event, Failed, Finished


class CompletionStream:
    """Text chunks and a finish chunk for each choice; then perhaps a usage chunk, and `[DONE]`.

    `echoes` are the texts that the choices begin with, `scores` how their tokens are scored.
    """

    def __init__(
        self, chunks: Chunks, echoes: Sequence[str], scores: Sequence[LegacyScores]
    ) -> None:
        self._chunks = chunks
        self._echoes = echoes
        self._scores = scores
        self._begun = False

    def sign_of_life(self, so_far: SoFar) -> bytes:
        return KEEP_ALIVE

    def feed(self, event: Event) -> list[bytes]:
        match event:
            case Accepted():
                return self._begin(event)
            case Delta(text=text, choice=choice, scored=scored) if text or scored:
                logprobs = self._scores[choice].take(scored) if scored else None
                return [self._chunks.chunk(_choice(choice, text, logprobs))]
            case ChoiceEnded():
                ended = _choice(event.choice, "") | finish_members(event)
                return [self._chunks.chunk(ended, event.warnings)]
            case Finished():
                return self._chunks.end(event)
            case Failed(error=error):
                return [frame({"error": error_object(error)})]
            case _:
                return []

    def _begin(self, accepted: Accepted) -> list[bytes]:
        """With several prompts each is accepted; all echoes come with the first."""
        self._chunks.begin(accepted)
        if self._begun:
            return []
        self._begun = True
        return [self._chunks.chunk(_choice(i, echo)) for i, echo in enumerate(self._echoes) if echo]


def _choice(index: int, text: str, logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": None}
