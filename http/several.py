"""The prompts of one exchange, as request scopes beside each other.

At most as many run at a time as the batch has rows; see `actors.together` for how they take turns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from headrace.actors.generation import CANCELLED, Generation
from headrace.actors.runtime import Runtime
from headrace.actors.together import Together, alone
from headrace.http.wire.merged import Merged
from headrace.http.work import OnePrompt, Work
from headrace.runtime.contracts import CancelReason, Event, Failed, Request
from headrace.runtime.errors import ErrorInfo

# What is wrong with a prompt is wrong with the field it came in, in its place of the list.
PROMPT_FIELDS = ("messages", "prompt")


@asynccontextmanager
async def open_work(
    runtime: Runtime, requests: Sequence[Request], *, low: bool = False
) -> AsyncIterator[Work]:
    """Run the requests of one exchange. When this returns, nothing of them is left. Those of `low`
    priority let all others pass."""
    if len(requests) == 1:
        (request,) = requests
        scope = runtime.request(request, alone(low=True)) if low else runtime.request(request)
        async with scope as generation:
            yield OnePrompt(generation)
        return
    work = Prompts(runtime, requests, low=low)
    async with trio.open_nursery() as nursery:
        for number in range(len(requests)):
            nursery.start_soon(work.serve, number)
        yield work
        nursery.cancel_scope.cancel()


class Prompts(Work):
    """Several prompts. A reader that waits gets the next event of any of them."""

    def __init__(self, runtime: Runtime, requests: Sequence[Request], *, low: bool) -> None:
        n = requests[0].n
        super().__init__(Merged(len(requests), n))
        self._runtime = runtime
        self._requests = requests
        width = max(1, runtime.settings.max_rows // n)
        self._together = Together(len(requests), width, low=low)
        # Without room: what is not read stays in its generation's sink, where it merges.
        self._send, self._events = trio.open_memory_channel[tuple[int, Event]](0)
        self._open: list[Generation] = []
        self._model = requests[0].model
        self._cancelled: CancelReason | None = None

    @property
    def model(self) -> str | None:
        return self._model

    @property
    def cancelled(self) -> CancelReason | None:
        return self._cancelled

    def cancel(self, reason: CancelReason) -> None:
        self._cancelled = self._cancelled or reason
        for generation in self._open:
            generation.cancel(reason)

    async def wait_released(self) -> None:
        for generation in tuple(self._open):
            await generation.released.wait()

    async def receive(self) -> list[Event]:
        number, event = await self._events.receive()
        return self._merged.feed(number, event)

    async def serve(self, number: int) -> None:
        """Take one prompt to its end."""
        if self._cancelled is not None:
            await self._send.send((number, Failed(CANCELLED)))
            return
        part = self._together.parts[number]
        async with self._runtime.request(self._requests[number], part) as generation:
            self._open.append(generation)
            try:
                await self._pass_on(number, generation)
            finally:
                self._open.remove(generation)

    async def _pass_on(self, number: int, generation: Generation) -> None:
        async for event in generation:
            self._model = generation.model
            if isinstance(event, Failed):
                self._cancelled = self._cancelled or generation.cancelled
                event = Failed(_numbered(event.error, number))
            await self._send.send((number, event))


def _numbered(error: ErrorInfo, number: int) -> ErrorInfo:
    field, bracket, rest = (error.param or "").partition("[")
    if field not in PROMPT_FIELDS:
        return error
    return attrs.evolve(error, param=f"prompt[{number}]{bracket}{rest}")
