"""What the Model actor asks of a request in its batch, whatever kind of request it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.actors.messages import Prepared, Ticket
from headrace.runtime.contracts import Event
from headrace.runtime.ports import PromptScores, RowRead, RowSpec, RowToken, Tokenizer


class Part(Protocol):
    """One row of the engine, which calls it `number`."""

    leaving: bool
    # Another after it was suspended.
    number: int

    @property
    def ended(self) -> object:
        """Something true once the client has been told all of it."""

    def take_forced(self) -> tuple[int, ...]:
        """Tokens that the engine is to say next, once."""


class BatchRow(Protocol):
    """`over`: its last word has been told. Parts are given back to the row that they are of."""

    cancelled: bool
    over: bool
    # Prompt tokens that it did not have to compute.
    cached_tokens: int

    @property
    def ticket(self) -> Ticket: ...
    @property
    def choices(self) -> Sequence[Part]:
        """None before it is submitted."""

    @property
    def sampled(self) -> int: ...
    @property
    def width(self) -> int:
        """How many rows of the engine it takes, once its prompt is built."""

    def on_built(self, built: Any) -> Prepared: ...
    def begin(self, numbers: list[int], max_tokens: int, tokenizer: Tokenizer) -> None:
        """The row gets its places in the batch."""

    def specs(self) -> list[RowSpec]: ...
    def on_prompt_scores(self, found: PromptScores) -> list[Event]: ...
    def on_prompt(self) -> list[Event]: ...
    def on_token(self, part: Any, drawn: RowToken) -> list[Event]: ...
    def cut_short(self) -> list[Event]:
        """There is no memory for it to go on: what it has said is its answer. Nothing where it
        has said nothing."""

    def on_read(self, part: Any, read: RowRead) -> list[Event]: ...
