"""What a soak's server and its workers have to live through, one thing after the other."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import attrs
import trio
from soak.book import Book
from soak.looks import Looks
from soak.processes import children

from headrace.actors.patience import Patience

Deed: TypeAlias = Callable[[], Awaitable[None]]

# A worker that stood still comes back to what it was told meanwhile.
STOP_SECONDS = (0.2, 2.0)
SPELL_SECONDS = (4.0, 12.0)
CALM_SECONDS = (2.0, 8.0)
# Before it is ready, a worker may be silent for so long: it reads weights.
LOAD_SECONDS = Patience().start_seconds
# What follows upon a fault belongs to it.
AFTERMATH_SECONDS = 5.0


@attrs.define
class Weather:
    """`models` are the main one, which most ask for, and others that do not all fit beside it.

    In the last half of the soak the main model's worker is left alive, so that its memory can be
    watched; it stands still now and then.
    """

    models: tuple[str, ...]
    book: Book
    looks: Looks
    server_pid: int
    frozen_seconds: float
    draw: random.Random = attrs.field(factory=lambda: random.Random(0))
    # Clients ask while it is open.
    open: bool = True
    # So many more clients than usual are at it.
    crowd: bool = False
    # A worker is made to suffer, or a model changes.
    disturbed: bool = False
    last_half: bool = False
    _popular: str | None = None
    _opened: trio.Event = attrs.field(factory=trio.Event)

    async def wait_open(self) -> None:
        while not self.open:
            await self._opened.wait()

    def close_gate(self) -> None:
        self.open = False

    def open_gate(self) -> None:
        self.open = True
        self._opened.set()
        self._opened = trio.Event()

    def model(self, draw: random.Random) -> str:
        """Whom the next request is for."""
        if self._popular is not None and draw.random() < 0.4:
            return self._popular
        return self.models[0]

    async def run(self) -> None:
        deeds: tuple[tuple[Deed, int], ...] = (
            (self.popular, 4),
            (self.crowded, 3),
            (self.kill, 3),
            (self.stop, 4),
            (self.freeze, 1),
            (self.unload, 2),
            (self.cancel_some, 3),
        )
        while True:
            await self.wait_open()
            await trio.sleep(self.draw.uniform(*CALM_SECONDS))
            (deed,) = self.draw.choices([d for d, _ in deeds], [weight for _, weight in deeds])
            if self.open:
                await deed()

    async def popular(self) -> None:
        """Another model is asked for too: it has to be loaded, and perhaps one to go."""
        self.book.deeds["another model is asked for"] += 1
        self._popular = self.draw.choice(self.models[1:])
        await self._disturbing(partial(trio.sleep, self.draw.uniform(*SPELL_SECONDS)))
        self._popular = None

    async def crowded(self) -> None:
        self.book.deeds["overload"] += 1
        self.crowd = True
        await trio.sleep(self.draw.uniform(2.0, 5.0))
        self.crowd = False

    async def kill(self) -> None:
        await self._disturbing(lambda: self._signal(signal.SIGKILL))

    async def stop(self) -> None:
        async def stand_still() -> None:
            if pid := await self._signal(signal.SIGSTOP, main=True):
                await trio.sleep(self.draw.uniform(*STOP_SECONDS))
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

        await self._disturbing(stand_still)

    async def freeze(self) -> None:
        """A worker stands still for longer than it may: it is killed and started again."""

        async def stand_still() -> None:
            if pid := await self._signal(signal.SIGSTOP):
                longest = self.frozen_seconds + (0 if self.looks.ready(pid) else LOAD_SECONDS)
                await trio.sleep(longest)
                if pid in await children(self.server_pid):
                    self.book.violate(f"a frozen worker lived on for {longest:.0f} s")
                    os.kill(pid, signal.SIGCONT)

        await self._disturbing(stand_still)

    async def unload(self) -> None:
        model = self.draw.choice(self.models[1:])
        self.book.deeds["unload by force"] += 1
        await self._disturbing(lambda: self.looks.unload(model))

    async def cancel_some(self) -> None:
        for name in self.draw.sample(sorted(self.book.live), min(3, len(self.book.live))):
            self.book.deeds["cancel by id"] += 1
            await self.looks.cancel(name)

    async def _signal(self, number: signal.Signals, *, main: bool = False) -> int | None:
        """Send a signal to a random worker; its process id. None: there was none."""
        spared = self.models[0] if self.last_half and not main else None
        pids = [pid for model, pid in self.looks.pids().items() if model != spared]
        # The number may have gone to another process meanwhile.
        alive = [pid for pid in pids if pid in await children(self.server_pid)]
        if not alive:
            return None
        pid = self.draw.choice(alive)
        self.book.deeds[number.name] += 1
        os.kill(pid, number)
        return pid

    async def _disturbing(self, deed: Callable[[], Awaitable[object]]) -> None:
        self.disturbed = True
        await deed()
        await trio.sleep(AFTERMATH_SECONDS)
        self.disturbed = False
