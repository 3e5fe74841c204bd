"""How long a prompt is, without a row: the first stages of a request, and no more."""

from __future__ import annotations

import attrs

from headrace.actors.messages import Ticket
from headrace.actors.scope import Stages
from headrace.runtime.contracts import Event, InferenceRequest


@attrs.frozen
class Counted:
    """`prompt_tokens` is what the same request would have as its prompt."""

    model: str
    prompt_tokens: int


async def count(stages: Stages, ticket: Ticket, request: InferenceRequest) -> Counted:
    """Load the model if need be and build the prompt. Raises `RequestError`, `ActorDied`.

    A prompt that is too long for the model is counted like any other.
    """
    model_id = stages.registry.resolve(request.model).model_id
    async with (
        stages.admission.place(ticket, model_id),
        stages.registry.lease(ticket, model_id) as lease,
        lease.host.seat(ticket, _nothing) as seat,
    ):
        prepared = await seat.prepare(request)
        return Counted(model_id, prepared.prompt_tokens)


def _nothing(event: Event) -> None:
    """A prompt that is built and not submitted has no events but its model's death, which
    `prepare` raises too."""
