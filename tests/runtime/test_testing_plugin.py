"""The fixtures do what their tests' names say."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.testing import Choices

orders: dict[int, list[int]] = {}


@pytest.mark.parametrize("again", [1, 2])
async def test_the_seed_orders_the_tasks(choices: Choices, seed: int, again: int) -> None:
    record: list[int] = []

    async def run(name: int) -> None:
        record.append(name)
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for name in range(6):
            nursery.start_soon(run, name)
    assert choices.seed == seed
    assert orders.setdefault(seed, record) == record


async def test_the_virtual_clock_takes_no_time(virtual_clock: MockClock) -> None:
    await trio.sleep(1000)
    assert trio.current_time() == virtual_clock.current_time() == 1000
