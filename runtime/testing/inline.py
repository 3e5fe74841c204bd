"""A thread that is none: the calls of one owner run inline, on the run's own clock.

With trio's `MockClock(autojump_threshold=0)` everything that would need a thread becomes virtual
and repeatable. Order and cancellation are those of a `PinnedThread`: one call at a time, and a
call whose waiter was cancelled still runs to its end.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import outcome
import trio

from headrace.runtime.actor import drain
from headrace.runtime.cleanup import bounded_cleanup, sheltered
from headrace.runtime.errors import ActorDied
from headrace.runtime.reply import Reply
from headrace.runtime.testing.device import ScriptedDevice
from headrace.runtime.thread import ThreadFactory

T = TypeVar("T")
_Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], Reply[Any]]


class InlineThread:
    """See `inline_threads`. `abandoned` is true once a hung call outlasted the bound."""

    def __init__(self, name: str, device: ScriptedDevice) -> None:
        self.name = name
        self.abandoned = False
        # Calls that were started; tests read it to see that nothing ran.
        self.calls = 0
        self._device = device
        self._send, self._inbox = trio.open_memory_channel[_Call](math.inf)
        self._scope = sheltered()
        self._current: Reply[Any] = Reply()

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        reply: Reply[T] = Reply()
        try:
            self._send.send_nowait((fn, args, reply))
        except trio.ClosedResourceError:
            reply.fail(ActorDied(self.name))
        return await reply.wait()

    async def _serve(self) -> None:
        with self._scope:
            async for fn, args, reply in self._inbox:
                self.calls += 1
                self._current = reply
                result = outcome.capture(fn, *args)
                await self._device.elapse()
                _settle(reply, result)

    async def _stop(self, seconds: float, finished: trio.Event) -> None:
        self._send.close()
        with bounded_cleanup(seconds):
            await finished.wait()
        self.abandoned = not finished.is_set()
        self._scope.cancel()
        # The first settlement wins, so this reaches only what has no answer.
        for reply in (self._current, *(call[2] for call in drain(self._inbox))):
            reply.fail(ActorDied(self.name))


def _settle(reply: Reply[Any], result: outcome.Outcome[Any]) -> None:
    if isinstance(result, outcome.Error):
        reply.fail(result.error)
    else:
        reply.set(result.unwrap())


def inline_threads(device: ScriptedDevice, *, stop_seconds: float = 10.0) -> ThreadFactory:
    """What to give a runtime in place of `open_thread`; `device` says how long each call takes.

    Leaving a thread waits for the calls it was given, at most `stop_seconds`; a call that hangs
    longer is abandoned, and `abandoned` says so.
    """

    @asynccontextmanager
    async def open_inline(name: str) -> AsyncIterator[InlineThread]:
        thread = InlineThread(name, device)
        finished = trio.Event()

        async def work() -> None:
            await thread._serve()
            finished.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, name=f"thread {name}")
            try:
                yield thread
            finally:
                await thread._stop(stop_seconds, finished)

    factory: Callable[[str], AbstractAsyncContextManager[InlineThread]] = open_inline
    return factory
