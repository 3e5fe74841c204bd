"""The event stream of a message (wire contract 6.3)."""

from __future__ import annotations

from typing import Any

from headrace.http.wire.answer import Part
from headrace.http.wire.anthropic_answer import MessageHead, start_usage, usage_object
from headrace.http.wire.asking import SoFar
from headrace.http.wire.errors import envelope
from headrace.http.wire.frames import KEEP_ALIVE, frame
from headrace.http.wire.warned import warning_member
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
    Warning_,
)


def named(kind: str, **members: Any) -> bytes:
    return frame({"type": kind, **members}, kind)


PING = named("ping")


class MessageStream:
    """Start, ping, blocks one after the other, the end; or an error and nothing more."""

    def __init__(self, head: MessageHead, request_id: str, *, speaks: bool) -> None:
        self._head = head
        self._request_id = request_id
        # An answer that may say something has a block even if it says nothing.
        self._speaks = speaks
        self._begun = False
        self._cap = head.cap
        self._open: Part | None = None
        self._blocks = 0
        self._ended = ChoiceEnded("stop")
        # Told with the next frame that can hold them.
        self._warnings: tuple[Warning_, ...] = ()

    def sign_of_life(self, so_far: SoFar) -> bytes:
        """A stream can begin as soon as the prompt is counted; until then nothing can be told."""
        if self._begun:
            return PING
        if so_far.model is None or not so_far.prompt_tokens:
            return KEEP_ALIVE
        return b"".join(self._begin(so_far.model, so_far.prompt_tokens))

    def feed(self, event: Event) -> list[bytes]:
        match event:
            case Accepted():
                return self._accept(event)
            case Delta(text=text) if text:
                return self._say(Part("text"), {"type": "text_delta", "text": text})
            case ReasoningDelta(text=text) if text:
                return self._think(text)
            case CallStarted(call, name):
                return self._open_block(Part("call", name, call))
            case CallArguments(text=text) if text:
                return [self._delta({"type": "input_json_delta", "partial_json": text})]
            case CallEnded():
                return self._close()
            case ChoiceEnded():
                self._ended = event
                self._warnings += event.warnings
                return []
            case Finished():
                return self._finish(event)
            case Failed(error=error):
                return [frame(envelope(error, "anthropic", self._request_id), "error")]
            case _:
                return []

    def _accept(self, accepted: Accepted) -> list[bytes]:
        self._cap = accepted.max_tokens
        self._warnings += accepted.warnings
        return [] if self._begun else self._begin(accepted.model, accepted.prompt_tokens)

    def _begin(self, model: str, prompt_tokens: int) -> list[bytes]:
        self._begun = True
        message = {
            **self._head.members(model),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": start_usage(prompt_tokens),
            **self._told(),
        }
        return [named("message_start", message=message), PING]

    def _think(self, text: str) -> list[bytes]:
        delta = {"type": "thinking_delta", "thinking": text}
        return self._say(Part("reasoning"), None if self._head.omits_thoughts else delta)

    def _say(self, part: Part, delta: dict[str, Any] | None) -> list[bytes]:
        """More of a kind of text, in the block that is open or in one of its own."""
        same = self._open is not None and self._open.kind == part.kind
        opening = [] if same else self._open_block(part)
        return opening if delta is None else [*opening, self._delta(delta)]

    def _open_block(self, part: Part) -> list[bytes]:
        closing = self._close()
        self._open = part
        start = self._head.opened(part)
        return [*closing, named("content_block_start", index=self._blocks, content_block=start)]

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return named("content_block_delta", index=self._blocks, delta=delta)

    def _close(self) -> list[bytes]:
        """End the open block, if there is one."""
        part, self._open = self._open, None
        if part is None:
            return []
        sign = {"type": "signature_delta", "signature": ""}
        signed = [self._delta(sign)] if part.kind == "reasoning" else []
        stop = named("content_block_stop", index=self._blocks)
        self._blocks += 1
        return [*signed, stop]

    def _finish(self, finished: Finished) -> list[bytes]:
        frames = self._close()
        if not self._blocks and self._speaks:
            frames += [*self._open_block(Part("text")), *self._close()]
        self._warnings += finished.warnings
        delta = self._head.stop(self._ended, self._cap, finished.usage)
        usage = usage_object(finished.usage)
        end = named("message_delta", delta=delta, usage=usage, **self._told())
        return [*frames, end, named("message_stop")]

    def _told(self) -> dict[str, Any]:
        told, self._warnings = self._warnings, ()
        return warning_member(told)
