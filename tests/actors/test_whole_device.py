"""Work that wants the device for itself begins when no row runs, and no row begins beside it."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from headrace.actors.whole_device import WholeDevice
from headrace.runtime.settings import Settings
from headrace.runtime.testing.runtime import ask, asking
from headrace.runtime.testing.scene import open_scene


@given(st.lists(st.tuples(st.sampled_from(["want", "leave", "grant"]), st.integers(0, 3))))
def test_one_holds_the_device_at_a_time_in_order_and_beside_no_row(
    moves: list[tuple[str, int]],
) -> None:
    device, wanted, holder = WholeDevice(), [], None
    for move, who in moves:
        if move == "want" and who not in wanted:
            device.want(who)
            wanted.append(who)
        elif move == "leave":
            device.leave(who)
            wanted = [other for other in wanted if other != who]
            holder = None if holder == who else holder
        elif move == "grant":
            granted = device.grant(running=who)
            expected = wanted[0] if wanted and holder is None and not who else None
            assert granted == expected
            holder = holder if granted is None else granted
        assert device.wanted == bool(wanted)


async def test_it_waits_for_rows_that_run_and_holds_back_those_that_come(
    autojump_clock: MockClock,
) -> None:
    async with open_scene() as scene, trio.open_nursery() as nursery:
        order: list[str] = []

        async def hear(text: str) -> None:
            await ask(scene.runtime, asking(text, max_tokens=20))
            order.append(text)

        async def hold() -> None:
            async with scene.runtime.whole_device():
                order.append("held")
                assert scene.runtime.statistics().rows_running == 0
                await trio.sleep(100)
                assert scene.runtime.statistics().rows_running == 0
                order.append("let go")

        nursery.start_soon(hear, "first")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(hear, "second")
        await trio.sleep(1000)
        assert sorted(order[:2]) == ["first", "held"]
        assert order[2:] == ["let go", "second"]
        await scene.baseline.settle()


async def test_one_that_is_cancelled_holds_nobody_back(autojump_clock: MockClock) -> None:
    async with open_scene(settings=Settings(max_rows=1)) as scene:
        for seconds in (0.0, 0.01, 5.0):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, scene.runtime, asking("first", max_tokens=20))
                await trio.testing.wait_all_tasks_blocked()
                with trio.move_on_after(seconds):
                    async with scene.runtime.whole_device():
                        await trio.sleep_forever()
                answer = await ask(scene.runtime, asking("second", max_tokens=5))
                assert answer.code is None
        await scene.baseline.settle()
