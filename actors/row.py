"""One request inside the Model actor: from its prompt to its last word. Sync state, no trio."""

from __future__ import annotations

import attrs

from headrace.actors.messages import Ticket
from headrace.actors.text.pipeline import TextPipeline
from headrace.runtime.contracts import Delta, Event, Finished, FinishReason, InferenceRequest, Usage
from headrace.runtime.ports import RowSpec, Tokenizer


@attrs.define(eq=False)
class Row:
    """`number` is the engine's name of the row, 0 until it is submitted."""

    ticket: Ticket
    request: InferenceRequest
    tokens: tuple[int, ...] = ()
    number: int = 0
    max_tokens: int = 0
    # Tokens drawn by the engine, the end token included.
    sampled: int = 0
    # Its proper end has been told; the engine may still hold it.
    over: bool = False
    leaving: bool = False
    cancelled: bool = False
    _pipeline: TextPipeline | None = None
    _end_tokens: frozenset[int] = frozenset()
    # Tokens whose text is still held back.
    _held: int = 0

    def begin(self, number: int, max_tokens: int, tokenizer: Tokenizer) -> None:
        """The row gets its place: from now on it can produce text."""
        self.number = number
        self.max_tokens = max_tokens
        self._pipeline = TextPipeline(tokenizer.decoder(self.request.prompt), self.request.stop)
        self._end_tokens = tokenizer.end_tokens

    def spec(self) -> RowSpec:
        return RowSpec(self.number, self.tokens, self.request.sampling, self.max_tokens)

    def on_token(self, token: int) -> list[Event]:
        """What a sampled token means for the client. Nothing once the row is over."""
        if self.over:
            return []
        assert self._pipeline is not None
        self.sampled += 1
        if token in self._end_tokens:
            return self._finish("stop", ended_by_token=True)
        self._held += 1
        out = self._pipeline.add(token)
        events = self._text(out.text)
        if out.stopped:
            return [*events, self._finished("stop")]
        if self.sampled >= self.max_tokens:
            return [*events, *self._finish("length")]
        return events

    def _finish(self, reason: FinishReason, *, ended_by_token: bool = False) -> list[Event]:
        """Let go of held text, which may itself complete a stop string."""
        assert self._pipeline is not None
        rest = self._pipeline.finish()
        events = self._text(rest.text)
        ended = self._finished("stop" if rest.stopped else reason, end_tokens=int(ended_by_token))
        return [*events, ended]

    def _text(self, text: str) -> list[Event]:
        if not text:
            return []
        held, self._held = self._held, 0
        return [Delta(text, held)]

    def _finished(self, reason: FinishReason, end_tokens: int = 0) -> Finished:
        assert self._pipeline is not None
        self.over = True
        usage = Usage(len(self.tokens), self.sampled - end_tokens)
        return Finished(reason, usage, self._pipeline.matched_stop)
