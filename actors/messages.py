"""What travels between a request scope and a Model actor, in both directions.

All of it is plain frozen data: the same messages go through a mailbox in this process or as
frames to a worker process. A ticket names one request for its whole life; every message about it
carries the ticket, and `Cancel` is valid in any state, any number of times.

The order for one ticket is: Prepare, then Prepared or Refused; Submit, then Event..., with
exactly one end (Finished or Failed) unless it was cancelled; then Ended, exactly once, when
nothing of the ticket is left in the model. Cancel may come at any point and only hastens Ended.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from headrace.actors.ledger import Allot, Use
from headrace.runtime.contracts import Event, InferenceRequest, Request, Warning_
from headrace.runtime.errors import ErrorInfo
from headrace.runtime.ports import CacheUse, Memory
from headrace.runtime.readings import DecisionRequest, EmbeddingRequest

Ticket: TypeAlias = str


# ---- to the Model actor ------------------------------------------------------------------


@attrs.frozen
class Prepare:
    """Build the prompt of a request and keep it under its ticket until Submit or Cancel."""

    ticket: Ticket
    request: InferenceRequest


@attrs.frozen
class PrepareEmbedding:
    """The same for a request that wants vectors. Frames need a class for each kind."""

    ticket: Ticket
    request: EmbeddingRequest


@attrs.frozen
class PrepareDecision:
    """The same for a request that wants probabilities."""

    ticket: Ticket
    request: DecisionRequest


@attrs.frozen
class Submit:
    """Put the prepared row into the batch; it may generate at most `max_tokens`. A row of `low`
    priority gives way to others in the batch as well."""

    ticket: Ticket
    max_tokens: int
    low: bool = False


@attrs.frozen
class Cancel:
    """Take everything of the ticket out at the next step boundary."""

    ticket: Ticket


Preparation: TypeAlias = Prepare | PrepareEmbedding | PrepareDecision
ToModel: TypeAlias = Preparation | Submit | Cancel | Allot


def preparation(ticket: Ticket, request: Request) -> Preparation:
    """The message that a request of this kind begins with."""
    match request:
        case InferenceRequest():
            return Prepare(ticket, request)
        case EmbeddingRequest():
            return PrepareEmbedding(ticket, request)
        case DecisionRequest():
            return PrepareDecision(ticket, request)


# ---- from the Model actor, several in one delivery ----------------------------------------


@attrs.frozen
class Prepared:
    """The prompt is built; it has this many tokens. `warnings` are for the client.

    `longest_tokens` is the longest sequence that is computed for it, None where that is the
    prompt itself.
    """

    prompt_tokens: int
    warnings: tuple[Warning_, ...] = ()
    longest_tokens: int | None = None


@attrs.frozen
class Refused:
    """The prompt cannot be built. Ended follows."""

    error: ErrorInfo


@attrs.frozen
class Decoding:
    """The prompt is computed; the row is in the decoding batch from now on."""

    cached_tokens: int = 0


@attrs.frozen
class Ended:
    """Nothing of the ticket is left: no row, no KV, no prepared prompt."""

    sampled_tokens: int = 0


Outgoing: TypeAlias = Prepared | Refused | Decoding | Ended | Event


@attrs.frozen
class Figures:
    """The model's own count of itself, after a step or a change of its rows."""

    running_rows: int = 0
    submitted_rows: int = 0
    finished_rows: int = 0
    cancelled_rows: int = 0
    # Of live rows, as of now.
    kv_bytes: int = 0
    # Of the model, when no row was there the last time that memory was measured; 0: not yet.
    model_bytes: int = 0
    # Totals since the load.
    decoded_tokens: int = 0
    # Computed, without those that were kept from before.
    prompt_tokens: int = 0
    cache: CacheUse = attrs.field(factory=CacheUse)
    memory: Memory | None = None
    # What it uses and wants of the machine's memory.
    use: Use = attrs.field(factory=Use)
    # The step that was just run; None after a change without a step.
    step: Literal["prefill", "decode"] | None = None
    step_rows: int = 0
    step_tokens: int = 0
    step_seconds: float = 0.0

    def with_use(self, running_rows: int, use: Use) -> Figures:
        """These, where that is not so already: most turns change neither."""
        if self.running_rows == running_rows and self.use == use:
            return self
        return attrs.evolve(self, running_rows=running_rows, use=use)

    def with_held(self, kv_bytes: int, cache: CacheUse) -> Figures:
        if self.kv_bytes == kv_bytes and self.cache == cache:
            return self
        return attrs.evolve(self, kv_bytes=kv_bytes, cache=cache)

    def without_step(self) -> Figures:
        """After the step was told of."""
        return self if self.step is None else attrs.evolve(self, step=None)

    @property
    def loose_bytes(self) -> int:
        """Measured bytes that are neither KV nor kept prefixes: the model, and what a step needs
        or has left behind. 0 before anything was measured."""
        if self.memory is None:
            return 0
        return max(0, self.memory.active_bytes - self.kv_bytes - self.cache.bytes)

    @property
    def cached_tokens(self) -> int:
        return self.cache.tokens_reused

    @property
    def cache_hits(self) -> int:
        return self.cache.hits

    @property
    def cache_misses(self) -> int:
        return self.cache.misses


@attrs.frozen
class Delivery:
    """Everything that one turn of the model's loop brought, for all rows at once."""

    items: tuple[tuple[Ticket, Outgoing], ...]
    figures: Figures
