"""A thread that is none: order, time, cancellation and hangs on the virtual clock."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.errors import ActorDied
from headrace.runtime.testing import InlineThread, ScriptedDevice, inline_threads
from headrace.runtime.thread import Thread


async def test_a_call_gives_its_result_when_its_time_has_passed(autojump_clock: MockClock) -> None:
    device = ScriptedDevice()

    def work(count: int) -> int:
        device.spend(count / 2)
        device.spend(count / 2)
        return count * 10

    async with inline_threads(device)("a") as thread:
        assert await thread.run(work, 3) == 30
        assert trio.current_time() == 3.0
        assert await thread.run(work, 1) == 10
        assert trio.current_time() == 4.0


async def test_a_call_that_raises_takes_its_time_as_well(autojump_clock: MockClock) -> None:
    device = ScriptedDevice()

    def work() -> None:
        device.spend(2)
        raise OSError("no device")

    async with inline_threads(device)("a") as thread:
        with pytest.raises(OSError, match="no device"):
            await thread.run(work)
        assert trio.current_time() == 2.0


async def test_calls_run_one_at_a_time_in_the_order_in_which_they_were_asked(
    autojump_clock: MockClock,
) -> None:
    device, record = ScriptedDevice(), []

    def work(name: str) -> None:
        record.append((trio.current_time(), name))
        device.spend(1)

    async with inline_threads(device)("a") as thread, trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(thread.run, work, name)
            await trio.testing.wait_all_tasks_blocked()
    assert record == [(0, "a"), (1, "b"), (2, "c")]


async def test_a_cancelled_wait_leaves_the_call_running_to_its_end(
    autojump_clock: MockClock,
) -> None:
    device, record = ScriptedDevice(), []

    def work(name: str) -> None:
        record.append((trio.current_time(), name))
        device.spend(5)

    async with inline_threads(device)("a") as thread:
        with trio.move_on_after(1):
            await thread.run(work, "first")
        assert trio.current_time() == 1
        await thread.run(work, "second")
    assert record == [(0, "first"), (5, "second")]


async def test_every_call_checkpoints_although_it_takes_no_time() -> None:
    async with inline_threads(ScriptedDevice())("a") as thread:
        with trio.testing.assert_checkpoints():
            await thread.run(int)


class TestHang:
    async def test_is_left_behind_after_the_bound(self, autojump_clock: MockClock) -> None:
        device = ScriptedDevice()
        with trio.move_on_after(1):
            async with inline_threads(device, stop_seconds=7)("a") as thread:
                await thread.run(device.hang)
        assert trio.current_time() == 8
        assert isinstance(thread, InlineThread)
        assert thread.abandoned

    async def test_fails_the_calls_that_it_kept_waiting(self, autojump_clock: MockClock) -> None:
        device, ends = ScriptedDevice(), list[float]()

        async def ask(fn: Callable[[], object]) -> None:
            with pytest.raises(ActorDied, match="engine"):
                await thread.run(fn)
            ends.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            async with inline_threads(device, stop_seconds=7)("engine") as thread:
                nursery.start_soon(ask, device.hang)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ask, int)
                await trio.testing.wait_all_tasks_blocked()
            await ask(int)
        assert ends == [7, 7, 7]

    async def test_ends_when_the_device_is_released(self, autojump_clock: MockClock) -> None:
        device = ScriptedDevice()
        async with inline_threads(device)("a") as thread, trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, device.hang)
            await trio.sleep(3)
            device.release()
            assert await thread.run(int) == 0
        assert trio.current_time() == 3
        assert not _inline(thread).abandoned

    async def test_keeps_no_other_thread_of_the_device(self, autojump_clock: MockClock) -> None:
        device = ScriptedDevice()
        threads = inline_threads(device)
        async with threads("hangs") as hangs, threads("goes on") as goes_on:
            with trio.move_on_after(1):
                await hangs.run(device.hang)
            await goes_on.run(device.spend, 2)
            assert trio.current_time() == 3
            device.release()

    def test_on_a_real_thread_takes_real_time_until_released(self) -> None:
        sleeps: list[float] = []
        device = ScriptedDevice(sleep=sleeps.append)
        device.spend(0.5)
        device.sleep = lambda seconds: device.release()
        device.hang()
        assert (sleeps, device.hung, device.busy_seconds) == ([0.5], False, 0.5)


def _inline(thread: Thread) -> InlineThread:
    assert isinstance(thread, InlineThread)
    return thread


async def test_leaving_waits_for_the_call_in_progress(autojump_clock: MockClock) -> None:
    device = ScriptedDevice()
    async with trio.open_nursery() as nursery:
        async with inline_threads(device)("a") as thread:
            nursery.start_soon(thread.run, device.spend, 4)
            await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == 4


def test_an_hour_of_virtual_work_takes_no_real_time() -> None:
    device = ScriptedDevice()

    async def main() -> float:
        async with inline_threads(device)("a") as thread:
            await thread.run(device.spend, 3600)
        return trio.current_time()

    started = time.perf_counter()
    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == 3600
    assert time.perf_counter() - started < 600
