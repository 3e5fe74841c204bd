"""Several prompts of one client's request, each a request scope of its own.

They share one place in the queue. All of them are checked before any of them runs, so what is
wrong with the last one is known before anything was sent. Then they take turns in their order: a
long list must not take the rows of those who wait behind it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from headrace.runtime.errors import Code, ErrorInfo, RequestError

LEFT = ErrorInfo(Code.REQUEST_CANCELLED, "Another prompt of the request was cancelled.")


class Together:
    """`parts` are for the prompts, in order; at most `width` of them have a turn at a time. Those
    of `low` priority let the prompts of all other requests pass."""

    def __init__(self, prompts: int, width: int = 1, *, low: bool = False) -> None:
        self.parts = tuple(
            Part(self, number, late=number >= width, low=low) for number in range(prompts)
        )
        self._width = width
        self._unchecked = set(range(prompts))
        # Those that have had no turn yet.
        self._line = deque(range(prompts))
        self._turns = [trio.Event() for _ in range(prompts)]
        # Of those that wait in the queue.
        self._waits: list[trio.CancelScope] = []
        self._failure: ErrorInfo | None = None

    def checked(self, number: int) -> None:
        if number in self._unchecked:
            self._unchecked.discard(number)
            if not self._unchecked:
                for _ in range(self._width):
                    self._next_turn()

    def over(self, number: int) -> None:
        """A prompt that was checked has ended, with its turn or before it."""
        if number in self._line:
            self._line.remove(number)
        else:
            self._next_turn()

    def _next_turn(self) -> None:
        if self._line:
            self._turns[self._line.popleft()].set()

    async def wait_turn(self, number: int) -> None:
        """Raises `RequestError` where another prompt was refused."""
        await self._turns[number].wait()
        if self._failure is not None:
            raise RequestError.of(self._failure)

    def waits(self, scope: trio.CancelScope) -> None:
        self._waits.append(scope)

    def admitted(self) -> None:
        """The request as a whole has been served: its other prompts do not wait in the queue."""
        for scope in self._waits:
            scope.deadline = math.inf

    def left(self, number: int, failure: ErrorInfo) -> None:
        """Nobody waits for a prompt that has gone before it was checked."""
        if number in self._unchecked:
            self._failure = self._failure or failure
            for turn in self._turns:
                turn.set()


class Part:
    """One prompt's share. `late` ones have their turn only after others have ended."""

    def __init__(self, together: Together, number: int, *, late: bool, low: bool) -> None:
        self.late = late
        self.low = low
        self._together = together
        self._number = number

    @property
    def group(self) -> Together:
        """What all parts of one request have in common."""
        return self._together

    @contextmanager
    def held(self, queue: trio.CancelScope) -> Iterator[None]:
        """For as long as the prompt is under way; `queue` ends what waits for too long."""
        failure = LEFT
        self._together.waits(queue)
        try:
            yield
        except RequestError as error:
            failure = error.info
            raise
        finally:
            self._together.left(self._number, failure)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The prompt was found to be good. Waits until it may run."""
        self._together.checked(self._number)
        try:
            await self._together.wait_turn(self._number)
            yield
        finally:
            self._together.over(self._number)

    def admitted(self) -> None:
        self._together.admitted()


def alone(*, low: bool = False) -> Part:
    """The part of a request that has one prompt."""
    (part,) = Together(1, low=low).parts
    return part
