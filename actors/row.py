"""One request inside the Model actor: from its prompt to its last word. Sync state, no trio."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from headrace.actors.answering import Built
from headrace.actors.choice import Choice
from headrace.actors.echo import Echo
from headrace.actors.messages import Prepared, Ticket
from headrace.runtime.contracts import Delta, Event, Finished, InferenceRequest, Usage, Warning_
from headrace.runtime.ports import PromptScores, RowRead, RowSpec, RowToken, Tokenizer, TokenScores

STOPPED_EARLY = Warning_("stopped_early", "there was no memory left to go on")


@attrs.define(eq=False)
class Row:
    """`choices` are its answers, none before it is submitted; each is a row of the engine."""

    ticket: Ticket
    request: InferenceRequest
    built: Built | None = None
    choices: list[Choice] = attrs.field(factory=list)
    cancelled: bool = False
    # Its last word has been told: the row is to leave with all its choices.
    over: bool = False
    cached_tokens: int = 0
    # Tokens of its prompt that have been told.
    _echoed: int = 0

    @property
    def prompt_tokens(self) -> int:
        return 0 if self.built is None else len(self.built.tokens)

    @property
    def sampled(self) -> int:
        return sum(choice.sampled for choice in self.choices)

    @property
    def width(self) -> int:
        return self.request.n

    def on_built(self, built: Built) -> Prepared:
        self.built = built
        return Prepared(self.prompt_tokens, built.warnings)

    def begin(self, numbers: list[int], max_tokens: int, tokenizer: Tokenizer) -> None:
        """The row gets its places in the batch: from now on it can produce text."""
        assert self.built is not None
        self.choices = [
            Choice(
                index,
                number,
                max_tokens,
                pipeline,
                tokenizer.end_tokens,
                tokenizer,
                self.built.max_calls,
                self.built.thought_limit,
            )
            for index, (number, pipeline) in enumerate(
                zip(numbers, self.built.pipelines, strict=True)
            )
        ]

    def specs(self) -> list[RowSpec]:
        """One for all choices: they are the siblings of the first."""
        assert self.built is not None
        first, *siblings = self.choices
        spec = RowSpec(
            first.number,
            self.built.tokens,
            self.built.sampling,
            first.max_tokens,
            siblings=tuple(choice.number for choice in siblings),
            logprobs=self.request.logprobs,
            scores_prompt=self.built.echo is not None and self.request.logprobs is not None,
            mask=self.built.mask,
        )
        return [spec]

    def on_prompt_scores(self, found: PromptScores) -> list[Event]:
        """More of the prompt is scored, and told if it was not before."""
        if self.over:
            return []
        begin: list[TokenScores | None] = [] if self._echoed else [None]
        known = max(self._echoed, 1) - found.first
        return self._echo([*begin, *found.scores[known:]])

    def on_prompt(self) -> list[Event]:
        """The prompt is complete: what is to be told before the first token. A row that may say
        nothing is at its end."""
        if self.over or self.built is None:
            return []
        events = list[Event]()
        if self.built.echo is not None and not self._echoed:
            scored = self.request.logprobs is not None
            events += self._echo([None]) if scored else self._echo_unscored(self.built.echo)
        if self.choices[0].max_tokens == 0:
            for choice in self.choices:
                events += choice.end_unsaid()
            events.append(self._finished())
        return events

    def cut_short(self) -> list[Event]:
        if not self.sampled:
            return []
        events = list[Event]()
        for choice in self.choices:
            if choice.ended is None:
                events += choice.end_unsaid()
        return [*events, attrs.evolve(self._finished(), warnings=(STOPPED_EARLY,))]

    def on_read(self, choice: Choice, read: RowRead) -> list[Event]:
        raise ValueError(f"a row that generates was read: {read.row}")

    def on_token(self, choice: Choice, drawn: RowToken) -> list[Event]:
        """What a sampled token means for the client; after the last answer, the request's end."""
        if self.over:
            return []
        events = choice.on_token(drawn)
        if choice.ended is not None and all(other.ended for other in self.choices):
            events.append(self._finished())
        return events

    def _echo(self, scores: Sequence[TokenScores | None]) -> list[Event]:
        """The next tokens of the prompt, at the front of every answer."""
        assert self.built is not None
        assert self.built.echo is not None
        told = slice(self._echoed, self._echoed + len(scores))
        self._echoed = told.stop
        text = "".join(self.built.echo.texts[told])
        raw = self.built.echo.raw[told]
        return [
            Delta(text, 0, choice.index, tuple(map(choice.score, raw, scores)))
            for choice in self.choices
        ]

    def _echo_unscored(self, echo: Echo) -> list[Event]:
        text = "".join(echo.texts)
        return [Delta(text, 0, choice.index) for choice in self.choices] if text else []

    def _finished(self) -> Finished:
        self.over = True
        first = self.choices[0].ended
        assert first is not None
        usage = Usage(
            self.prompt_tokens,
            sum(choice.completion_tokens for choice in self.choices),
            self.cached_tokens,
            reasoning_tokens=sum(choice.pipeline.reasoning_tokens for choice in self.choices),
        )
        return Finished(first.reason, usage, first.matched_stop)
