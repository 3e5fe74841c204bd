"""What a batch costs the clients that wait for their first token, in the device's own seconds."""

from __future__ import annotations

import statistics

import pytest
import trio
from trio.testing import MockClock

from headrace.actors.runtime import Runtime
from headrace.http.several import open_work
from headrace.runtime.contracts import Delta
from headrace.runtime.testing import ScriptedModel
from headrace.runtime.testing.runtime import asking
from headrace.runtime.testing.scene import open_scene

MOST_RATIO = 1.5
# The scripted model has a token for each character.
LINE, ASK = "l" * 60, "a" * 120


async def first_token(runtime: Runtime) -> float:
    """Seconds from a request to its first text."""
    began = trio.current_time()
    async with runtime.request(asking(ASK, max_tokens=30)) as generation:
        async for event in generation:
            if isinstance(event, Delta) and event.text:
                return trio.current_time() - began
    raise AssertionError("it said nothing")


async def keep_low(runtime: Runtime, number: int) -> None:
    """Lines of a batch, one after the other and for ever."""
    while True:
        request = asking(LINE, id=f"line {number}", max_tokens=32)
        async with open_work(runtime, [request], low=True) as work:
            await work.receive_all()


@pytest.mark.parametrize("lines", [1, 4])
async def test_beside_a_batch_the_first_token_takes_half_as_long_again_at_most(
    autojump_clock: MockClock, lines: int
) -> None:
    async with open_scene(ScriptedModel(load_seconds=0)) as scene, trio.open_nursery() as nursery:
        await first_token(scene.runtime)
        idle = await first_token(scene.runtime)
        for number in range(lines):
            nursery.start_soon(keep_low, scene.runtime, number)
        beside = []
        for number in range(20):
            # A moment of its own in the lines' lives.
            await trio.sleep(0.5 + 0.0274 * number)
            beside.append(await first_token(scene.runtime))
        nursery.cancel_scope.cancel()
    assert statistics.median(beside) <= MOST_RATIO * idle
    assert max(beside) <= 2 * idle
