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

from headrace.runtime.contracts import Event, InferenceRequest, Warning_
from headrace.runtime.errors import ErrorInfo
from headrace.runtime.ports import Memory

Ticket: TypeAlias = str


# ---- to the Model actor ------------------------------------------------------------------


@attrs.frozen
class Prepare:
    """Build the prompt of a request and keep it under its ticket until Submit or Cancel."""

    ticket: Ticket
    request: InferenceRequest


@attrs.frozen
class Submit:
    """Put the prepared row into the batch; it may generate at most `max_tokens`."""

    ticket: Ticket
    max_tokens: int


@attrs.frozen
class Cancel:
    """Take everything of the ticket out at the next step boundary."""

    ticket: Ticket


ToModel: TypeAlias = Prepare | Submit | Cancel


# ---- from the Model actor, several in one delivery ----------------------------------------


@attrs.frozen
class Prepared:
    """The prompt is built; it has this many tokens. `warnings` are for the client."""

    prompt_tokens: int
    warnings: tuple[Warning_, ...] = ()


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
    kv_bytes: int = 0
    # Totals since the load.
    decoded_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    memory: Memory | None = None
    # The step that was just run; None after a change without a step.
    step: Literal["prefill", "decode"] | None = None
    step_rows: int = 0
    step_tokens: int = 0
    step_seconds: float = 0.0


@attrs.frozen
class Delivery:
    """Everything that one turn of the model's loop brought, for all rows at once."""

    items: tuple[tuple[Ticket, Outgoing], ...]
    figures: Figures
