"""The kit finds a leak that the usual tests miss, and prints the line that plays it again.

    pytest examples/leak_test.py

A desk hands out one key, and keeps a queue for it. `LeakyDesk` looks right: whoever gives up while
waiting says so, and is taken out of the queue. But a visitor may give up in the very moment in
which the key has been granted and not yet been received: then nobody has it, and nobody will.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from headrace.runtime.actor import Actor
from headrace.runtime.reply import Reply
from headrace.runtime.testing import Choices, ScheduleFailed, explore, replay


@attrs.frozen
class Take:
    visitor: str
    reply: Reply[None]


@attrs.frozen
class GiveBack:
    """The visitor has the key, and returns it."""

    visitor: str


@attrs.frozen
class GiveUp:
    """The visitor no longer waits."""

    visitor: str


Message: TypeAlias = Take | GiveBack | GiveUp


class LeakyDesk(Actor[Message]):
    def __init__(self) -> None:
        super().__init__("desk")
        self.holder: str | None = None
        self.queue: list[Take] = []

    @asynccontextmanager
    async def key(self, visitor: str) -> AsyncIterator[None]:
        """Hold the key while inside."""
        reply: Reply[None] = Reply()
        try:
            await self.ref.ask(Take(visitor, reply), reply)
        except BaseException:
            self.ref.tell(GiveUp(visitor))
            raise
        try:
            yield
        finally:
            self.ref.tell(GiveBack(visitor))

    def handle(self, message: Message) -> None:
        match message:
            case Take():
                self.queue.append(message)
            case GiveBack():
                self.holder = None
            case GiveUp(visitor):
                self.on_give_up(visitor)
        if self.holder is None and self.queue:
            take = self.queue.pop(0)
            self.holder = take.visitor
            take.reply.set(None)

    def on_give_up(self, visitor: str) -> None:
        self.queue = [take for take in self.queue if take.visitor != visitor]


class Desk(LeakyDesk):
    """Mended by the ticket rule: a release is valid in every state, also just after the grant."""

    def on_give_up(self, visitor: str) -> None:
        super().on_give_up(visitor)
        if self.holder == visitor:
            self.holder = None


both = pytest.mark.parametrize("kind", [LeakyDesk, Desk])


async def visit(desk: LeakyDesk, name: str, seconds: float, patience: float = 3600) -> None:
    """Wait for the key no longer than `patience`, then hold it for so many seconds."""
    with trio.move_on_after(patience):
        async with desk.key(name):
            await trio.sleep(seconds)


# 1. The usual tests. All of them pass, also with the leak.


@both
async def test_the_key_goes_from_one_to_the_next(
    autojump_clock: MockClock, kind: type[LeakyDesk]
) -> None:
    desk = kind()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.serve)
        async with trio.open_nursery() as visitors:
            for name in "abc":
                visitors.start_soon(visit, desk, name, 1.0)
        assert trio.current_time() == 3.0
        nursery.cancel_scope.cancel()


@both
async def test_who_gives_up_is_taken_out_of_the_queue(
    autojump_clock: MockClock, kind: type[LeakyDesk]
) -> None:
    desk = kind()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.serve)
        async with trio.open_nursery() as visitors:
            visitors.start_soon(visit, desk, "stays", 5.0)
            visitors.start_soon(visit, desk, "gives up", 5.0, 1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert (desk.holder, desk.queue) == (None, [])
        nursery.cancel_scope.cancel()


# 2. The same two visitors under many schedules. One seed in a few dozen finds the leak.


def two_visitors(kind: type[LeakyDesk]) -> Callable[[Choices], Awaitable[None]]:
    async def scenario(choices: Choices) -> None:
        desk = kind()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.serve)
            async with trio.open_nursery() as visitors:
                visitors.start_soon(visit, desk, "stays", choices.between(1, 3))
                patience = choices.pick((9, 1, 2, 3))
                visitors.start_soon(visit, desk, "gives up", 1.0, patience)
            await trio.testing.wait_all_tasks_blocked()
            assert desk.holder is None, f"{desk.holder!r} has left and still has the key"
            nursery.cancel_scope.cancel()

    return scenario


def test_exploration_finds_the_leak() -> None:
    with pytest.raises(ScheduleFailed, match="has left and still has the key") as caught:
        explore(two_visitors(LeakyDesk), range(500))

    # What a reader of the failure sees: the seed, and how many of its choices it takes.
    print(caught.value)
    assert caught.value.again.startswith("replay(scenario, seed=")
    # And that line does play it again.
    with pytest.raises(ScheduleFailed, match="has left and still has the key"):
        replay(two_visitors(LeakyDesk), seed=caught.value.seed, keep=caught.value.keep)


def test_and_none_where_it_is_mended() -> None:
    assert explore(two_visitors(Desk), range(500)).schedules == 500
