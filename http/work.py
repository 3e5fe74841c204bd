"""What the runtime does for one exchange: one run of events, however many prompts it has."""

from __future__ import annotations

from abc import ABC, abstractmethod

from headrace.actors.generation import Generation
from headrace.http.wire.merged import Merged
from headrace.runtime.contracts import CancelReason, Event, Failed, Finished


class Work(ABC):
    """The generations of one exchange; what `http` asks of a `Generation`, for all of them."""

    def __init__(self, merged: Merged) -> None:
        self._merged = merged

    @property
    @abstractmethod
    def model(self) -> str | None: ...

    @property
    def prompt_tokens(self) -> int:
        """Of a single prompt, once they are counted; else 0."""
        return 0

    @property
    @abstractmethod
    def cancelled(self) -> CancelReason | None: ...

    @abstractmethod
    def cancel(self, reason: CancelReason) -> None:
        """End it now; its reader gets Failed (request_cancelled)."""

    @abstractmethod
    async def wait_released(self) -> None:
        """Until nothing is left of it in any model."""

    @abstractmethod
    async def receive(self) -> list[Event]:
        """The next events, perhaps none. Cutting it short loses nothing."""

    async def receive_all(self) -> list[Event]:
        """Every event, the end included. Called first, and once."""
        events = await self.receive()
        while not (events and isinstance(events[-1], Finished | Failed)):
            events += await self.receive()
        return events


class OnePrompt(Work):
    """The usual case."""

    def __init__(self, generation: Generation) -> None:
        super().__init__(Merged(1, generation.request.n))
        self._generation = generation

    @property
    def model(self) -> str | None:
        return self._generation.model

    @property
    def prompt_tokens(self) -> int:
        return self._generation.prompt_tokens

    @property
    def cancelled(self) -> CancelReason | None:
        return self._generation.cancelled

    def cancel(self, reason: CancelReason) -> None:
        self._generation.cancel(reason)

    async def wait_released(self) -> None:
        await self._generation.released.wait()

    async def receive(self) -> list[Event]:
        return self._merged.feed(0, await self._generation.receive())
