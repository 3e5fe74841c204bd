"""The same runtime on real threads and the real clock: what the virtual ones stand for."""

from __future__ import annotations

import threading

import trio
from trio.testing import wait_all_tasks_blocked

from headrace.actors.runtime import Runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Baseline, ScriptedLoader
from headrace.runtime.testing.runtime import ask, asking, open_scripted
from headrace.runtime.thread import open_thread


async def test_an_answer_and_thirty_requests_that_are_left() -> None:
    loader = ScriptedLoader()
    async with open_scripted(loader, Settings(max_rows=4), threads=open_thread) as runtime:
        answer = await ask(runtime, asking("hello", max_tokens=5))
        assert len(answer.text) == 5
        await wait_idle(runtime)
        baseline = Baseline.of(runtime, loader.model.engines)

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(left_after, runtime, number, number % 7)

        with trio.fail_after(60):
            await wait_idle(runtime)
        baseline.check()
    assert loader.model.engine.closed
    assert [thread.name for thread in threading.enumerate() if "scripted" in thread.name] == []


async def left_after(runtime: Runtime, number: int, events: int) -> None:
    """Read so many events and go."""
    async with runtime.request(asking(f"request {number}", max_tokens=50)) as generation:
        for _ in range(events):
            await generation.receive()


async def wait_idle(runtime: Runtime) -> None:
    """No row is left once the requests have ended; then the last messages are taken."""
    await runtime.wait_idle()
    await wait_all_tasks_blocked(0.01)
