"""Clients of a soak: they ask, read, and a third of them leave without their answer."""

from __future__ import annotations

import random

import attrs
import trio
from soak.asks import TABLE, Ask, judged
from soak.book import Book
from soak.weather import Weather

from headrace.runtime.testing.site import Caller

WAYS = ("close", "reset", "half-close", "stall")
MOMENTS = ("at once", "soon", "first bytes")
# What a request asks for whose client means to leave; it would take a while.
LONG_TOKENS = 300
# Whoever stays has an end by then, whatever happens to workers meanwhile.
ANSWER_SECONDS = 150.0
STALL_SECONDS = 1.0
DROPPABLE = tuple(ask for ask in TABLE if ask.droppable)


@attrs.define
class Client:
    """One after the other, with pauses of `pause_seconds` in the mean."""

    number: int
    port: int
    book: Book
    weather: Weather
    drop_share: float
    pause_seconds: float
    draw: random.Random = attrs.field(init=False)
    _count: int = 0

    def __attrs_post_init__(self) -> None:
        self.draw = random.Random(self.number)

    async def run(self) -> None:
        while True:
            await self.weather.wait_open()
            await trio.sleep(self.draw.expovariate(1 / self.pause_seconds))
            if self.weather.open:
                self._count += 1
                await self.one(f"soak-{self.number}-{self._count}")

    async def one(self, name: str) -> None:
        leaves = self.draw.random() < self.drop_share
        table = DROPPABLE if leaves else TABLE
        (ask,) = self.draw.choices(table, [ask.weight for ask in table])
        model = self.weather.model(self.draw)
        data = ask.request(self.draw, model, name, LONG_TOKENS if leaves else None)
        self.book.begin(name)
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                caller = Caller(stream)
                await caller.send(data)
                if leaves:
                    outcome = await self._leave(caller, name)
                else:
                    outcome = await _answer(ask, caller)
        except (OSError, trio.BrokenResourceError) as error:
            outcome = f"the connection broke: {error!r}"
        self.book.end(name, ask.name, outcome)

    async def _leave(self, caller: Caller, name: str) -> str:
        way, moment = self.draw.choice(WAYS), self.draw.choice(MOMENTS)
        with trio.move_on_after(0.02 if moment == "at once" else 0.5):
            if moment == "first bytes":
                try:
                    await caller.read_until(b"\r\n\r\n")
                except (EOFError, trio.BrokenResourceError):
                    return "the connection ended before its client left"
            await trio.sleep(self.draw.uniform(0.0, 0.3))
        if way == "stall":
            await trio.sleep(STALL_SECONDS)
        elif way == "half-close":
            await caller.stream.send_eof()
        elif way == "reset":
            caller.reset()
        self.book.leave(name, way)
        return "left"


async def _answer(ask: Ask, caller: Caller) -> str:
    with trio.move_on_after(ANSWER_SECONDS) as patience:
        outcome = judged(ask, await caller.read_to_end())
    return f"no end within {ANSWER_SECONDS:.0f} s" if patience.cancelled_caught else outcome
