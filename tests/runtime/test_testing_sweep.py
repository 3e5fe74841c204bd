"""The sweep meets every await of a scope, and says at which one something was left."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.testing import cancelled_at, sweep


class Lease:
    """A resource with three awaits on its way: asked, held, used."""

    def __init__(self, *, forget: bool) -> None:
        self.held: list[str] = []
        self._forget = forget

    async def use(self) -> None:
        await trio.lowlevel.checkpoint()
        self.held.append("lease")
        if self._forget:
            await trio.lowlevel.checkpoint()
        try:
            await trio.lowlevel.checkpoint()
            await trio.sleep(1)
        finally:
            self.held.clear()

    async def check(self) -> None:
        assert self.held == []
        await trio.lowlevel.checkpoint()


async def test_meets_every_step_of_the_scope(autojump_clock: MockClock) -> None:
    lease = Lease(forget=False)
    assert await sweep(lease.use, lease.check) == 3


async def test_finds_the_one_await_at_which_something_is_lost(autojump_clock: MockClock) -> None:
    lease = Lease(forget=True)
    with pytest.raises(AssertionError) as caught:
        await sweep(lease.use, lease.check)
    assert caught.value.__notes__ == ["cancelled at step 2 of the task"]


async def test_counts_the_steps_of_other_tasks_when_asked(autojump_clock: MockClock) -> None:
    async def scenario() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(trio.sleep, 1)

    async def check() -> None:
        await trio.lowlevel.checkpoint()

    assert await sweep(scenario, check, of="run") > await sweep(scenario, check, of="task")


async def test_one_step_can_be_chosen() -> None:
    record: list[int] = []

    async def scenario() -> None:
        for step in range(1, 4):
            record.append(step)
            await trio.lowlevel.checkpoint()

    assert await cancelled_at(2, scenario)
    assert record == [1, 2]
    assert not await cancelled_at(5, scenario)


async def test_a_scenario_without_end_is_refused() -> None:
    async def check() -> None:
        await trio.lowlevel.checkpoint()

    async def swallows() -> None:
        for _ in range(50):
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()

    with pytest.raises(ValueError, match="more than 5 steps"):
        await sweep(swallows, check, limit=5)
