"""Runs that outlive the connection that asked for them: a bounded number of them, and an end.

They are children of the runtime. Each is a request scope like any other, so a drain waits for
them and a shutdown ends them with everything else; then they have a moment to say how they ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from headrace.runtime.errors import Code, RequestError


class Background:
    def __init__(self, nursery: trio.Nursery, most: int) -> None:
        self._nursery = nursery
        self._most = most
        self._running = 0
        self._empty = trio.Event()
        self._empty.set()

    def start(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Raises `RequestError` (queue_full) where too many run already. `run` must not raise."""
        if self._running >= self._most:
            text = f"All {self._most} places of background responses are taken."
            raise RequestError(Code.QUEUE_FULL, text, retry_after_seconds=1.0)
        if not self._running:
            self._empty = trio.Event()
        self._running += 1
        self._nursery.start_soon(self._run, run, name=f"background {name}")

    async def _run(self, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        finally:
            self._running -= 1
            if not self._running:
                self._empty.set()

    async def wait_ended(self) -> None:
        """Until none runs."""
        await self._empty.wait()

    def __repr__(self) -> str:
        return f"<Background {self._running} of {self._most}>"
