"""A one-shot answer cell: the promise that every question gets exactly one answer."""

from __future__ import annotations

from typing import Generic, TypeVar

import outcome
import trio

T = TypeVar("T")


class Reply(Generic[T]):
    """Set once by the owner of the question's subject, awaited by the one who asked.

    The first `set` or `fail` wins and later ones are ignored, so that a clean-up may fail every
    reply it knows without asking which are still open. Setting is sync and never blocks.
    """

    __slots__ = ("_event", "_outcome")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._outcome: outcome.Outcome[T] | None = None

    @property
    def done(self) -> bool:
        return self._outcome is not None

    def set(self, value: T) -> None:
        self._settle(outcome.Value(value))

    def fail(self, error: BaseException) -> None:
        self._settle(outcome.Error(error))

    def _settle(self, result: outcome.Outcome[T]) -> None:
        if self._outcome is None:
            self._outcome = result
            self._event.set()

    async def wait(self) -> T:
        """The answer, or the error that took its place. Only one task may wait."""
        await self._event.wait()
        assert self._outcome is not None
        return self._outcome.unwrap()

    def __repr__(self) -> str:
        state = "open" if self._outcome is None else repr(self._outcome)
        return f"<Reply {state}>"
