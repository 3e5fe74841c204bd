"""The prompts of one exchange, as request scopes beside each other.

At most as many run at a time as the batch has rows: a long list of prompts must not take the
places of those who wait behind it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from headrace.actors.generation import CANCELLED, Generation
from headrace.actors.runtime import Runtime
from headrace.http.wire.errors import DEFAULT_RETRY_SECONDS
from headrace.http.wire.merged import Merged
from headrace.http.work import OnePrompt, Work
from headrace.runtime.contracts import (
    Accepted,
    CancelReason,
    Event,
    Failed,
    Finished,
    InferenceRequest,
)
from headrace.runtime.errors import Code


@asynccontextmanager
async def open_work(runtime: Runtime, requests: Sequence[InferenceRequest]) -> AsyncIterator[Work]:
    """Run the requests of one exchange. When this returns, nothing of them is left."""
    if len(requests) == 1:
        async with runtime.request(requests[0]) as generation:
            yield OnePrompt(generation)
        return
    work = Prompts(runtime, requests)
    async with trio.open_nursery() as nursery:
        for _ in range(work.width):
            nursery.start_soon(work.serve)
        yield work
        nursery.cancel_scope.cancel()


class Prompts(Work):
    """Several prompts. A reader that waits gets the next event of any of them."""

    def __init__(self, runtime: Runtime, requests: Sequence[InferenceRequest]) -> None:
        n = requests[0].n
        super().__init__(Merged(len(requests), n))
        self.width = min(len(requests), max(1, runtime.settings.max_rows // n))
        self._runtime = runtime
        self._waiting = deque(enumerate(requests))
        # Without room: what is not read stays in its generation's sink, where it merges.
        self._send, self._events = trio.open_memory_channel[tuple[int, Event]](0)
        self._open: list[Generation] = []
        self._model = requests[0].model
        # A prompt has been accepted: from then on a full queue is something to wait for.
        self._accepted = False
        self._cancelled: CancelReason | None = None
        self._cancel_told = trio.Event()

    @property
    def model(self) -> str | None:
        return self._model

    @property
    def cancelled(self) -> CancelReason | None:
        return self._cancelled

    def cancel(self, reason: CancelReason) -> None:
        self._cancelled = self._cancelled or reason
        self._cancel_told.set()
        for generation in self._open:
            generation.cancel(reason)

    async def wait_released(self) -> None:
        for generation in tuple(self._open):
            await generation.released.wait()

    async def receive(self) -> list[Event]:
        number, event = await self._events.receive()
        return self._merged.feed(number, event)

    async def serve(self) -> None:
        """Take one prompt after the other, until none is left."""
        while self._waiting:
            number, request = self._waiting.popleft()
            patience = self._runtime.settings.queue_timeout_s or math.inf
            give_up = trio.current_time() + patience
            while (wait_seconds := await self._try(number, request, give_up)) is not None:
                with trio.move_on_after(wait_seconds):
                    await self._cancel_told.wait()

    async def _try(self, number: int, request: InferenceRequest, give_up: float) -> float | None:
        """Run a prompt to its end, or give the seconds after which to try again. `give_up` is when
        a full queue is no longer waited for."""
        if self._cancelled is not None:
            await self._send.send((number, Failed(CANCELLED)))
            return None
        async with self._runtime.request(request) as generation:
            self._open.append(generation)
            try:
                return await self._run(number, generation, give_up)
            finally:
                self._open.remove(generation)

    async def _run(self, number: int, generation: Generation, give_up: float) -> float | None:
        event = await generation.receive()
        self._accepted |= isinstance(event, Accepted)
        self._model = generation.model
        left_seconds = give_up - trio.current_time()
        if isinstance(event, Failed) and self._can_wait(event) and left_seconds > 0:
            advised_seconds = event.error.retry_after_seconds or DEFAULT_RETRY_SECONDS
            return min(advised_seconds, left_seconds)
        while not isinstance(event, Finished | Failed):
            await self._send.send((number, event))
            event = await generation.receive()
        self._cancelled = self._cancelled or generation.cancelled
        await self._send.send((number, event))
        return None

    def _can_wait(self, refused: Failed) -> bool:
        """Whether a full queue is only ours to wait for: the request as a whole has its place as
        long as one of its prompts has one, or had."""
        others = len(self._open) > 1
        return refused.error.code is Code.QUEUE_FULL and (others or self._accepted)
