"""One OS thread for the whole life of an owner.

MLX streams belong to the thread that made them, and trio's thread cache would move work between
threads; so an engine is loaded, stepped and freed on one pinned thread. A call is a function and
its answer; nothing runs between calls.
"""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, TypeAlias, TypeVar

import outcome
import trio

from headrace.runtime.cleanup import bounded_cleanup, sheltered
from headrace.runtime.errors import ActorDied
from headrace.runtime.reply import Reply

T = TypeVar("T")


class Thread(Protocol):
    """Where synchronous work of one owner runs, one call at a time, in order."""

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(*args)` there. Cancelling the wait leaves the call running to its end."""


# Tests put in a thread that runs its calls inline, on a virtual clock.
ThreadFactory: TypeAlias = Callable[[str], AbstractAsyncContextManager[Thread]]

_Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], Reply[Any]]


class PinnedThread:
    """See `open_thread`. `abandoned` is true once the thread did not end within its bound."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.abandoned = False
        self._inbox: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._scope = sheltered()
        self._finished = trio.Event()
        # Calls that have not been answered.
        self._open: set[Reply[Any]] = set()

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Raises `ActorDied` where the thread has ended, or was given up while the call waited."""
        reply: Reply[T] = Reply()
        self._open.add(reply)
        if self._finished.is_set() or self.abandoned:
            self._fail_open()
        self._inbox.put((fn, args, reply))
        try:
            return await reply.wait()
        finally:
            self._open.discard(reply)

    def _fail_open(self) -> None:
        for reply in self._open:
            reply.fail(ActorDied(self.name))

    async def _serve(self) -> None:
        limiter = trio.CapacityLimiter(1)
        with self._scope:
            await trio.to_thread.run_sync(
                self._loop, thread_name=self.name, limiter=limiter, abandon_on_cancel=True
            )
        self._finished.set()
        self._fail_open()

    def _loop(self) -> None:
        while (call := self._inbox.get()) is not None:
            fn, args, reply = call
            result = outcome.capture(fn, *args)
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(_settle, reply, result)
            # A result may hold what the owner wants to see freed; the loop must not keep it.
            del call, fn, args, reply, result

    async def _stop(self, seconds: float) -> None:
        self._inbox.put(None)
        with bounded_cleanup(seconds):
            await self._finished.wait()
        self.abandoned = not self._finished.is_set()
        self._fail_open()
        self._scope.cancel()


def _settle(reply: Reply[Any], result: outcome.Outcome[Any]) -> None:
    if isinstance(result, outcome.Error):
        reply.fail(result.error)
    else:
        reply.set(result.unwrap())


@asynccontextmanager
async def open_thread(name: str, *, stop_seconds: float = 10.0) -> AsyncIterator[PinnedThread]:
    """A pinned thread. Leaving waits for the call in progress, at most `stop_seconds`; a call
    that hangs longer is abandoned with its thread, and `abandoned` says so."""
    thread = PinnedThread(name)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread._serve)
        try:
            yield thread
        finally:
            await thread._stop(stop_seconds)
