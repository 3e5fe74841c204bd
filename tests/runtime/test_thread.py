"""The pinned thread: one OS thread, one call at a time, and an end within its bound."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Awaitable, Callable

import pytest
import trio

from headrace.runtime.errors import ActorDied
from headrace.runtime.thread import PinnedThread, open_thread


class Gate:
    """A call that stays in its thread until it is let go; real threads need a real wait."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._open = threading.Event()

    def hold(self) -> str:
        self.entered.set()
        assert self._open.wait(120), "nobody let the call go"
        return "held"

    def let_go(self) -> None:
        self._open.set()

    async def wait_entered(self) -> None:
        await trio.to_thread.run_sync(self.entered.wait)


def named(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == name]


async def test_every_call_runs_on_the_same_thread_although_others_come_and_go() -> None:
    async with open_thread("engine") as thread:
        first = await thread.run(threading.get_ident)
        for _ in range(5):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(trio.to_thread.run_sync, threading.get_ident)
            assert await thread.run(threading.get_ident) == first
        assert await thread.run(lambda: threading.current_thread().name) == "engine"
    assert first != threading.get_ident()
    assert named("engine") == []


async def test_two_threads_are_two() -> None:
    async with open_thread("one") as one, open_thread("two") as two:
        assert await one.run(threading.get_ident) != await two.run(threading.get_ident)


async def test_a_call_gives_its_result_or_its_error_and_the_thread_goes_on() -> None:
    async with open_thread("engine") as thread:
        assert await thread.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 7, 0)
        assert await thread.run(divmod, 7, 7) == (1, 0)


async def test_calls_run_one_at_a_time_in_the_order_in_which_they_were_asked() -> None:
    record: list[int] = []
    gate = Gate()
    async with open_thread("engine") as thread, trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, gate.hold)
        await gate.wait_entered()
        for number in range(5):
            nursery.start_soon(thread.run, record.append, number)
            await trio.testing.wait_all_tasks_blocked()
        assert record == []
        gate.let_go()
    assert record == [0, 1, 2, 3, 4]


async def test_a_cancelled_wait_leaves_the_call_running_to_its_end() -> None:
    gate, record = Gate(), list[str]()
    async with open_thread("engine") as thread:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, gate.hold)
            await gate.wait_entered()
            nursery.cancel_scope.cancel()
        gate.let_go()
        await thread.run(record.append, "next")
    assert record == ["next"]


async def test_leaving_waits_for_the_call_in_progress() -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery, open_thread("engine") as thread:
        nursery.start_soon(thread.run, gate.hold)
        await gate.wait_entered()
        nursery.start_soon(_let_go_when_all_wait, gate)
    assert not thread.abandoned
    assert named("engine") == []


async def _let_go_when_all_wait(gate: Gate) -> None:
    await trio.testing.wait_all_tasks_blocked()
    gate.let_go()


async def test_an_idle_thread_ends_at_once_when_its_owner_is_cancelled() -> None:
    with trio.move_on_after(0.01):
        async with open_thread("engine", stop_seconds=60) as thread:
            await trio.sleep_forever()
    # Had it needed the whole bound, it would have been left behind.
    assert (thread.abandoned, named("engine")) == (False, [])


async def test_a_call_that_hangs_is_left_behind_after_the_bound() -> None:
    gate = Gate()
    thread: PinnedThread | None = None
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with open_thread("engine", stop_seconds=0.05) as thread:
                nursery.start_soon(_given_up, thread, gate)
                await gate.wait_entered()
            assert thread.abandoned
    # It ends by itself as soon as its call does, and nobody hears of it.
    assert named("engine") == ["engine"]
    gate.let_go()
    await trio.to_thread.run_sync(_until, lambda: not named("engine"))


async def test_a_call_asked_of_a_thread_that_has_ended_fails_at_once() -> None:
    async with open_thread("engine") as thread:
        pass
    with trio.fail_after(60), pytest.raises(ActorDied, match="engine"):
        await thread.run(int)


async def test_a_hang_fails_the_calls_that_it_kept_waiting() -> None:
    gate = Gate()

    async def ask() -> None:
        with pytest.raises(ActorDied, match="engine"):
            await thread.run(int)

    try:
        with trio.fail_after(60):
            async with (
                trio.open_nursery() as nursery,
                open_thread("engine", stop_seconds=0.05) as thread,
            ):
                nursery.start_soon(_ended, thread.run, gate.hold)
                await gate.wait_entered()
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
    finally:
        gate.let_go()


async def _ended(run: Callable[..., Awaitable[object]], fn: Callable[[], object]) -> None:
    with pytest.raises(ActorDied, match="engine"):
        await run(fn)


async def test_a_call_still_queued_when_the_owner_leaves_gets_an_end() -> None:
    gate, ends = Gate(), list[object]()

    async def ask() -> None:
        try:
            ends.append(await thread.run(str, 5))
        except Exception as error:
            ends.append(error)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, open_thread("engine") as thread:
            nursery.start_soon(thread.run, gate.hold)
            await gate.wait_entered()
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            gate.let_go()
    assert ends == ["5"]


async def test_nothing_keeps_what_a_call_returned() -> None:
    class Weights:
        pass

    async with open_thread("engine") as thread:
        weights = await thread.run(Weights)
        seen = weakref.ref(weights)
        del weights
        await thread.run(int)
        assert seen() is None


async def test_a_thread_that_rests_keeps_nothing_either() -> None:
    class Weights:
        pass

    async with open_thread("engine") as thread:
        seen = weakref.ref(await thread.run(Weights))
        with trio.fail_after(60):
            while seen() is not None:  # noqa: ASYNC110 - the thread comes to rest in its own time
                await trio.sleep(0.001)


def test_a_thread_that_outlives_its_run_is_silent() -> None:
    gate = Gate()

    async def main() -> None:
        async with (
            trio.open_nursery() as nursery,
            open_thread("engine", stop_seconds=0.05) as thread,
        ):
            nursery.start_soon(_given_up, thread, gate)
            await gate.wait_entered()

    trio.run(main)
    gate.let_go()
    _until(lambda: not named("engine"))


async def _given_up(thread: PinnedThread, gate: Gate) -> None:
    with pytest.raises(ActorDied):
        await thread.run(gate.hold)


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.001)
