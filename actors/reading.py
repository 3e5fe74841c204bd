"""A request inside the Model actor that is answered by reading: embeddings and decisions.

The counterpart of `row`, for rows that say nothing. Sync state, no trio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from headrace.actors.messages import Prepared, Ticket
from headrace.runtime.contracts import Event, Finished, Reading, Sampling, Usage, Warning_
from headrace.runtime.ports import (
    Continuation,
    Pooling,
    PromptScores,
    RowRead,
    RowSpec,
    RowToken,
    Tokenizer,
)
from headrace.runtime.readings import DecisionRequest, EmbeddingRequest

# A row that is read draws nothing.
NO_DRAWS = Sampling(seed=0, temperature=0.0)


@attrs.frozen
class Passage:
    """One sequence to be read: what a row of the engine gets."""

    tokens: tuple[int, ...]
    continuations: tuple[Continuation, ...] = ()
    pooling: Pooling | None = None

    @property
    def read_tokens(self) -> int:
        """All that is computed for it."""
        return len(self.tokens) + sum(len(more.tokens) for more in self.continuations)

    @property
    def longest_tokens(self) -> int:
        """The longest context that it comes to."""
        return len(self.tokens) + max((len(more.tokens) for more in self.continuations), default=0)


@attrs.frozen
class BuiltReading:
    """`answer` makes what the client is told of a passage, by its index, out of what was read."""

    passages: tuple[Passage, ...]
    answer: Callable[[int, RowRead], list[Reading]]
    # What usage counts as the answer.
    answer_tokens: int = 0
    warnings: tuple[Warning_, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        return sum(passage.read_tokens for passage in self.passages)

    @property
    def longest_tokens(self) -> int:
        return max(passage.longest_tokens for passage in self.passages)


@attrs.define(eq=False)
class PassageRow:
    """A row of the engine, which calls it `number`."""

    index: int
    number: int
    ended: bool = False
    leaving: bool = False

    def take_forced(self) -> tuple[int, ...]:
        return ()


ReadingRequest: TypeAlias = EmbeddingRequest | DecisionRequest


@attrs.define(eq=False)
class ReadingRow:
    """What the Model actor asks of a `row.Row`, for a request that is read."""

    ticket: Ticket
    request: ReadingRequest
    built: BuiltReading | None = None
    choices: list[PassageRow] = attrs.field(factory=list)
    cancelled: bool = False
    over: bool = False
    cached_tokens: int = 0
    sampled: int = 0

    @property
    def width(self) -> int:
        return 0 if self.built is None else len(self.built.passages)

    def on_built(self, built: BuiltReading) -> Prepared:
        self.built = built
        return Prepared(built.prompt_tokens, built.warnings, built.longest_tokens)

    def begin(self, numbers: list[int], max_tokens: int, tokenizer: Tokenizer) -> None:
        self.choices = [PassageRow(index, number) for index, number in enumerate(numbers)]

    def specs(self) -> list[RowSpec]:
        assert self.built is not None
        return [
            RowSpec(
                row.number,
                passage.tokens,
                NO_DRAWS,
                max_tokens=0,
                continuations=passage.continuations,
                pooling=passage.pooling,
            )
            for row, passage in zip(self.choices, self.built.passages, strict=True)
        ]

    def on_read(self, row: PassageRow, read: RowRead) -> list[Event]:
        """What was read of one passage; after the last, the request's end."""
        if self.over or self.built is None:
            return []
        row.ended = True
        events: list[Event] = [*self.built.answer(row.index, read)]
        if all(other.ended for other in self.choices):
            self.over = True
            events.append(
                Finished(
                    "stop",
                    Usage(self.built.prompt_tokens, self.built.answer_tokens, self.cached_tokens),
                )
            )
        return events

    def cut_short(self) -> list[Event]:
        """There is no part of a reading."""
        return []

    def on_prompt(self) -> list[Event]:
        """Nothing is told of a prompt."""
        return []

    def on_prompt_scores(self, found: PromptScores) -> list[Event]:
        return []

    def on_token(self, row: PassageRow, drawn: RowToken) -> list[Event]:
        raise ValueError(f"a row that is read has drawn {drawn}")
