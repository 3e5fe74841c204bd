"""A request is a scope: the stages that one request goes through, as nested context managers.

Read `_held` from top to bottom for what a request holds, and from bottom to top for the order in
which it is given back, however the request ends. The stages run beside the reader, so a slow
reader does not keep a lease, a row or its KV: only what it has not read yet.
"""

from __future__ import annotations

import attrs
import trio

from headrace.actors.admission import Admission
from headrace.actors.capability import check_serves
from headrace.actors.generation import Generation
from headrace.actors.lives import CLOSING
from headrace.actors.registry import Registry
from headrace.actors.routing import Route
from headrace.actors.troubles import located
from headrace.runtime.contracts import Accepted, Failed, Finished, Request, Usage, Warning_
from headrace.runtime.errors import ActorDied, Code, ErrorInfo, RequestError
from headrace.runtime.readings import EmbeddingRequest
from headrace.runtime.trace import Trace

STOPPED_EARLY = Warning_("stopped_early", "the request ran into its time limit")
STALLED = ErrorInfo(Code.REQUEST_CANCELLED, "The request was cancelled: its reader stalled.")


@attrs.frozen
class Limits:
    """Seconds; `math.inf` where there is no limit."""

    queue_seconds: float
    request_seconds: float


@attrs.frozen
class Stages:
    """The actors that a request passes, in this order."""

    registry: Registry
    admission: Admission
    limits: Limits
    trace: Trace


async def run_stages(stages: Stages, generation: Generation) -> None:
    """Take one request through all stages. Every failure becomes its end; nothing is raised."""
    try:
        with (
            generation.scope,
            generation.stall,
            trio.move_on_after(stages.limits.request_seconds) as deadline,
        ):
            await _held(stages, generation)
        if generation.stall.cancelled_caught:
            generation.end_with(Failed(STALLED), "stall")
        if deadline.cancelled_caught:
            generation.end_with(_out_of_time(generation), "timeout")
    except RequestError as error:
        generation.put(Failed(error.info))
    except ActorDied:
        generation.put(Failed(CLOSING))
    except Exception as error:
        stages.trace.emit("request.crashed", generation.ticket, error=located(error))
        generation.put(Failed(ErrorInfo(Code.INTERNAL_ERROR, "The request failed.")))
    finally:
        # Whatever happened, whoever reads comes to an end; an end that is there stays.
        generation.put(Failed(CLOSING))
        generation.release()


async def _held(stages: Stages, generation: Generation) -> None:
    request, ticket = generation.request, generation.ticket
    route = _routed(stages.registry, request)
    model_id = generation.model = route.model_id
    known = stages.registry.known(model_id)
    if known is not None:
        stages.admission.check_fits(known)
    part = generation.part
    with trio.CancelScope() as queue, part.held(queue):
        queue.deadline = trio.current_time() + stages.limits.queue_seconds
        async with stages.admission.place(ticket, model_id, part.group) as place:
            generation.enter("loading")
            async with stages.registry.lease(ticket, model_id) as lease:
                generation.enter("queued")
                check_serves(lease.info, request)
                async with lease.host.seat(ticket, generation.put) as seat:
                    prepared = await seat.prepare(request)
                    prompt_tokens = generation.prompt_tokens = prepared.prompt_tokens
                    row_tokens = prepared.longest_tokens or prompt_tokens
                    # What can be refused is refused before anything of the request runs.
                    place.check(lease.info, row_tokens, request.max_tokens, request.n)
                    async with part.turn():
                        plan = await place.admit(
                            lease.info,
                            row_tokens,
                            request.max_tokens,
                            request.n,
                            late=part.late,
                            low=part.low,
                        )
                        part.admitted()
                        warnings = (
                            *request.warnings,
                            *route.warnings,
                            *prepared.warnings,
                            *plan.warnings,
                        )
                        accepted = Accepted(
                            model_id,
                            prompt_tokens,
                            plan.max_tokens,
                            lease.info.fingerprint,
                            warnings,
                        )
                        generation.admitted(seat, accepted)
                        seat.submit(plan.take(), low=part.low)
                        await seat.wait_ended()
    if queue.cancelled_caught:
        seconds = f"{stages.limits.queue_seconds:g}"
        raise RequestError(
            Code.QUEUE_TIMEOUT,
            f"The request waited in the queue for longer than {seconds} seconds.",
            retry_after_seconds=stages.admission.retry_after_seconds(model_id),
        )


def _routed(registry: Registry, request: Request) -> Route:
    """Where the request goes, if its model serves it as far as is known before a load."""
    companions = isinstance(request, EmbeddingRequest)
    route = registry.resolve(request.model, companions=companions)
    known = registry.known(route.model_id)
    if known is not None:
        check_serves(known, request)
    return route


def _out_of_time(generation: Generation) -> Finished | Failed:
    if generation.generated_tokens == 0:
        text = "The request's time limit passed before anything was generated."
        return Failed(ErrorInfo(Code.REQUEST_DEADLINE, text))
    usage = Usage(generation.prompt_tokens, generation.generated_tokens)
    return Finished("length", usage, warnings=(STOPPED_EARLY,))
