"""Drain: newcomers are refused, those in flight finish, and the end is bounded."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.runtime.contracts import Failed
from headrace.runtime.errors import Code, ErrorInfo
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedLoader, raising
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted, read_all
from headrace.runtime.testing.scene import open_scene

CLOSED = ErrorInfo(Code.CLOSED, "closing")


async def test_newcomers_are_refused_and_those_in_flight_finish(autojump_clock: MockClock) -> None:
    async with open_scene(settings=Settings(max_rows=1)) as scene:
        answers: dict[str, Answer] = {}

        async def client(name: str) -> None:
            answers[name] = await ask(scene.runtime, asking(name, max_tokens=20))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client, "running")
            nursery.start_soon(client, "queued")
            await trio.sleep(0.05)
            scene.runtime.close_to_new()
            assert scene.runtime.statistics().draining
            await client("late")
            assert answers["late"].code is Code.DRAINING
            end = answers["late"].end
            assert isinstance(end, Failed)
            assert end.error.retry_after_seconds is not None
            await scene.runtime.wait_idle()
            assert scene.runtime.statistics().requests_in_flight == 0
        assert {answers["running"].code, answers["queued"].code} == {None}
        scene.runtime.open_to_new()
        await client("again")
        assert answers["again"].code is None
        await scene.baseline.settle()


async def test_an_idle_runtime_is_idle_at_once(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        began = trio.current_time()
        await scene.runtime.wait_idle()
        assert trio.current_time() == began


async def test_after_the_bound_each_is_ended_with_the_given_error(
    autojump_clock: MockClock,
) -> None:
    async with open_scene(settings=Settings(max_rows=1)) as scene:
        ends: list[Answer] = []

        async def client(name: str) -> None:
            ends.append(await ask(scene.runtime, asking(name)))

        async with trio.open_nursery() as nursery:
            for name in ("running", "queued"):
                nursery.start_soon(client, name)
            await trio.sleep(0.5)
            scene.runtime.close_to_new()
            scene.runtime.end_all(CLOSED)
            ended_at = trio.current_time()
            await scene.runtime.wait_idle()
            assert trio.current_time() - ended_at <= 0.010
        assert [answer.code for answer in ends] == [Code.CLOSED, Code.CLOSED]
        assert scene.runtime.statistics().cancelled_total["drain"] == 2
        await scene.baseline.settle()


async def test_one_that_had_ended_keeps_its_own_end(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        async with scene.runtime.request(asking("done", max_tokens=2)) as generation:
            await trio.sleep(1)
            scene.runtime.end_all(CLOSED)
            assert (await read_all(generation)).code is None
        await scene.baseline.settle()


async def test_leaving_the_runtime_ends_a_load_in_progress(autojump_clock: MockClock) -> None:
    loader = ScriptedLoader()
    loader.model.load_seconds = 8.0
    async with trio.open_nursery() as nursery:
        answers: list[Answer] = []

        async def client() -> None:
            answers.append(await ask(runtime, asking("hello")))

        async with open_scripted(loader) as runtime:
            nursery.start_soon(client)
            await trio.sleep(0.5)
        # The load cannot be cut short, but nobody who waits for it has to wait for its end.
        assert trio.current_time() <= 8.0
    assert [answer.code for answer in answers] == [Code.CLOSED]


async def test_leaving_while_a_step_runs_waits_for_that_step_only(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        async with open_scene() as scene:
            nursery.start_soon(ask, scene.runtime, asking("count"))
            await trio.sleep(0.155)
            steps = scene.engine.steps
        assert scene.engine.steps == steps
        assert scene.engine.closed
        assert scene.device.active_bytes == 0
        assert scene.engine.misuses == []


async def test_an_engine_that_hangs_does_not_keep_the_runtime_open(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        async with open_scene(settings=Settings(step_timeout_s=5)) as scene:
            scene.model.at_step(4, scene.device.hang)
            nursery.start_soon(ask, scene.runtime, asking("count"))
            await trio.sleep(0.2)
            left = trio.current_time()
        # The watchdog of the step, and then the bound of the thread.
        assert trio.current_time() - left <= 5 + 10


async def test_a_program_error_inside_passes_through_as_itself(autojump_clock: MockClock) -> None:
    seen: list[BaseException] = []
    try:
        async with open_scene() as scene:
            scene.model.at_step(1, raising(OSError("contained")))
            await ask(scene.runtime, asking("fails alone"))
            await wait_all_tasks_blocked()
            raise KeyError("the program's own")
    except* KeyError as group:
        seen += group.exceptions
    assert len(seen) == 1
