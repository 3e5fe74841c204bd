"""One request inside the Model actor: from its prompt to its last word. Sync state, no trio."""

from __future__ import annotations

import attrs

from headrace.actors.answering import Built
from headrace.actors.choice import Choice
from headrace.actors.messages import Ticket
from headrace.runtime.contracts import Event, Finished, InferenceRequest, Usage
from headrace.runtime.ports import RowSpec, RowToken, Tokenizer


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

    @property
    def prompt_tokens(self) -> int:
        return 0 if self.built is None else len(self.built.tokens)

    @property
    def sampled(self) -> int:
        return sum(choice.sampled for choice in self.choices)

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

    def spec(self) -> RowSpec:
        assert self.built is not None
        first, *siblings = self.choices
        return RowSpec(
            first.number,
            self.built.tokens,
            self.built.sampling,
            first.max_tokens,
            siblings=tuple(choice.number for choice in siblings),
            logprobs=self.request.logprobs,
            mask=self.built.mask,
        )

    def on_token(self, choice: Choice, drawn: RowToken) -> list[Event]:
        """What a sampled token means for the client; after the last answer, the request's end."""
        if self.over:
            return []
        events = choice.on_token(drawn)
        if choice.ended is not None and all(other.ended for other in self.choices):
            events.append(self._finished())
        return events

    def _finished(self) -> Finished:
        self.over = True
        first = self.choices[0].ended
        assert first is not None
        usage = Usage(
            self.prompt_tokens,
            sum(choice.completion_tokens for choice in self.choices),
            reasoning_tokens=sum(choice.pipeline.reasoning_tokens for choice in self.choices),
        )
        return Finished(first.reason, usage, first.matched_stop)
