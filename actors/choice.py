"""One answer of a row: its tokens so far, as events for the client. Sync state, no trio."""

from __future__ import annotations

from typing import Protocol

import attrs

from headrace.actors.text.events import CallArguments as ArgumentText
from headrace.actors.text.events import CallEnded as CallOver
from headrace.actors.text.events import CallStarted as CallBegun
from headrace.actors.text.events import Reasoning, Text
from headrace.actors.text.pipeline import PipelineOut
from headrace.runtime.contracts import (
    CallArguments,
    CallEnded,
    CallStarted,
    ChoiceEnded,
    Delta,
    Event,
    FinishReason,
    ReasoningDelta,
    ScoredToken,
    TokenLogprob,
)
from headrace.runtime.ports import RowToken, TokenScores


class Pipeline(Protocol):
    """`actors.text`'s pipelines: tokens in, what they mean for the client out."""

    @property
    def matched_stop(self) -> str | None: ...
    @property
    def in_reasoning(self) -> bool: ...
    @property
    def reasoning_tokens(self) -> int: ...
    def add(self, token: int) -> PipelineOut: ...
    def finish(self, *, cut: bool = False) -> PipelineOut: ...


class Pieces(Protocol):
    """What a token's own bytes are."""

    def token_bytes(self, token: int) -> bytes: ...


@attrs.frozen
class ThoughtLimit:
    """After so many tokens of reasoning the block is closed by these."""

    tokens: int
    closing: tuple[int, ...]


@attrs.define(eq=False)
class Choice:
    """`number` is the engine's name of it. `max_calls` ends the answer after so many calls."""

    index: int
    number: int
    max_tokens: int
    pipeline: Pipeline
    end_tokens: frozenset[int]
    pieces: Pieces
    max_calls: int | None = None
    thought_limit: ThoughtLimit | None = None
    # Tokens drawn by the engine, the end token included.
    sampled: int = 0
    end_tokens_seen: int = 0
    # Its end has been told; the engine may still hold it.
    ended: ChoiceEnded | None = None
    # It leaves the engine at the next step boundary.
    leaving: bool = False
    _calls_ended: int = 0
    # Tokens whose output is still held back.
    _held: int = 0
    _scores: list[TokenScores] = attrs.field(factory=list)

    @property
    def completion_tokens(self) -> int:
        return self.sampled - self.end_tokens_seen

    def on_token(self, drawn: RowToken) -> list[Event]:
        """What a sampled token means for the client. Nothing once the answer is over."""
        if self.ended is not None:
            return []
        self.sampled += 1
        if drawn.token in self.end_tokens:
            self.end_tokens_seen = 1
            return self._finish("stop")
        self._held += 1
        if drawn.scores is not None:
            self._scores.append(drawn.scores)
        out = self.pipeline.add(drawn.token)
        events = self._events(out)
        if out.stopped or self._has_called_enough:
            return [*events, self._end("stop")]
        if self.sampled >= self.max_tokens:
            return [*events, *self._finish("length")]
        return events

    def end_unsaid(self) -> list[Event]:
        """The end of an answer that may not have another token."""
        return self._finish("length")

    def take_forced(self) -> tuple[int, ...]:
        """Tokens that the engine is to say next, once: the block has used up its limit."""
        limit = self.thought_limit
        if limit is None or not self.pipeline.in_reasoning:
            return ()
        if self.pipeline.reasoning_tokens < limit.tokens:
            return ()
        self.thought_limit = None
        return limit.closing

    @property
    def _has_called_enough(self) -> bool:
        return self.max_calls is not None and self._calls_ended >= self.max_calls

    def _finish(self, reason: FinishReason) -> list[Event]:
        """Let go of held text, which may itself complete a stop string or the last call."""
        rest = self.pipeline.finish(cut=reason == "length")
        events = self._events(rest)
        return [*events, self._end("stop" if rest.stopped else reason)]

    def _end(self, reason: FinishReason) -> ChoiceEnded:
        if reason == "stop" and self._calls_ended:
            reason = "tool_calls"
        self.ended = ChoiceEnded(reason, self.pipeline.matched_stop, self.index)
        return self.ended

    def _events(self, out: PipelineOut) -> list[Event]:
        scored = self._scored(out)
        if not out.events:
            if not out.text and not scored:
                return []
            return [Delta(out.text, self._told(), self.index, scored)]
        events: list[Event] = []
        if scored and not any(isinstance(event, Text) for event in out.events):
            # A token that began as text is only now known to go no further as such.
            events.append(Delta("", 0, self.index, scored))
        for event in out.events:
            match event:
                case Text(text):
                    events.append(Delta(text, self._told(), self.index, scored))
                    scored = ()
                case Reasoning(text):
                    events.append(ReasoningDelta(text, self._told(), self.index))
                case CallBegun(index, name):
                    events.append(CallStarted(index, name, self.index))
                case ArgumentText(index, text):
                    events.append(CallArguments(index, text, self._told(), self.index))
                case CallOver(index):
                    self._calls_ended += 1
                    events.append(CallEnded(index, self.index))
                    if self._has_called_enough:
                        break
        return events

    def _told(self) -> int:
        held, self._held = self._held, 0
        return held

    def _scored(self, out: PipelineOut) -> tuple[ScoredToken, ...]:
        if not out.shares:
            return ()
        return tuple(self.score(share.bytes, self._scores[share.index]) for share in out.shares)

    def score(self, shown: bytes, scores: TokenScores | None) -> ScoredToken:
        """A token as its client sees it; None for the one that a prompt begins with."""
        if scores is None:
            return ScoredToken(TokenLogprob(shown, None))
        top = tuple(
            TokenLogprob(self.pieces.token_bytes(token), logprob) for token, logprob in scores.top
        )
        return ScoredToken(TokenLogprob(shown, scores.logprob), top)
