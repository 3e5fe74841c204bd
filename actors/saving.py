"""What a model's engine leaves to be done for the disk, beside its steps.

The engine gives out no more than a few pieces of work before it has seen the end of some, so what
waits here is bounded. What is not done soon after the model has gone is lost, and no harm done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import trio

from headrace.actors.troubles import described
from headrace.runtime.cleanup import bounded_cleanup
from headrace.runtime.thread import Thread
from headrace.runtime.trace import Trace

LAST_SECONDS = 2.0


class Saving:
    """Each piece answers what went wrong, which is told in the trace."""

    def __init__(self, thread: Thread, trace: Trace) -> None:
        self._thread = thread
        self._trace = trace
        self._work: list[Callable[[], str | None]] = []
        self._has_work = trio.Event()

    def take(self, work: Sequence[Callable[[], str | None]]) -> None:
        self._work += work
        if self._work:
            self._has_work.set()

    async def serve(self) -> NoReturn:
        try:
            while True:
                await self._has_work.wait()
                self._has_work = trio.Event()
                await self._do_all()
        finally:
            # The last answers before a restart are those that are wanted after it.
            with bounded_cleanup(LAST_SECONDS):
                await self._do_all()

    async def _do_all(self) -> None:
        while self._work:
            await self._do(self._work.pop(0))

    async def _do(self, work: Callable[[], str | None]) -> None:
        try:
            trouble = await self._thread.run(work)
        except Exception as error:
            # It was for the sake of later requests only.
            trouble = described(error)
        if trouble is not None:
            self._trace.emit("cache.trouble", trouble=trouble)
