"""Cancellation at every single step, of the request's own task and of all tasks together."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.actors.runtime import Runtime
from headrace.runtime.settings import Settings
from headrace.runtime.testing import ScriptedDevice, ScriptedLoader, ScriptedModel, sweep
from headrace.runtime.testing.runtime import ask, asking, open_scripted
from headrace.runtime.testing.scene import open_scene
from headrace.runtime.testing.sweep import StepsOf

EVERY = pytest.mark.parametrize("of", ["task", "run"])


@EVERY
async def test_a_request_to_a_resting_model(autojump_clock: MockClock, of: StepsOf) -> None:
    settings = Settings(prefill_chunk_tokens=16)
    async with open_scene(settings=settings) as scene:

        async def request() -> None:
            answer = await ask(scene.runtime, asking("twenty-six letters of text", max_tokens=4))
            assert len(answer.text) == 4

        async def check() -> None:
            scene.baseline.check()  # nothing has to settle first: ends are joined
            # The whole house still works: one answer, one token.
            assert len((await ask(scene.runtime, asking("after", max_tokens=1))).text) == 1
            await scene.baseline.settle()

        assert await sweep(request, check, of=of) > 5
        assert scene.runtime.statistics().cancelled_total["disconnect"] > 2


@EVERY
async def test_a_request_that_waits_for_the_load(autojump_clock: MockClock, of: StepsOf) -> None:
    device = ScriptedDevice()

    async def request() -> None:
        async with open_scripted(ScriptedLoader(device=device)) as runtime:
            await ask(runtime, asking("cold", max_tokens=2))

    async def check() -> None:
        await trio.testing.wait_all_tasks_blocked()
        assert device.active_bytes == 0

    assert await sweep(request, check, of=of) > 5


@EVERY
async def test_a_request_in_the_queue(autojump_clock: MockClock, of: StepsOf) -> None:
    async with open_scene(settings=Settings(max_rows=1)) as scene:

        async def request() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, scene.runtime, asking("ahead", max_tokens=3))
                nursery.start_soon(ask, scene.runtime, asking("behind", max_tokens=3))

        await sweep(request, scene.baseline.settle, of=of)


@pytest.mark.parametrize("mixes", [False, True], ids=["in turns", "mixed"])
async def test_a_request_among_others_leaves_them_as_they_were(
    autojump_clock: MockClock, mixes: bool
) -> None:
    alone = await answers_alone()
    settings = Settings(prefill_chunk_tokens=16)
    model = ScriptedModel(mixes=mixes)
    async with open_scene(model, settings=settings) as scene, trio.open_nursery() as nursery:
        send, receive = trio.open_memory_channel[tuple[str, str]](len(alone))

        async def neighbour(text: str) -> None:
            await send.send((text, (await ask(scene.runtime, asking(text, max_tokens=12))).text))

        async def one_among_them() -> None:
            for text in alone:
                nursery.start_soon(neighbour, text)
            await ask(scene.runtime, asking("the one who leaves", max_tokens=6))

        async def check() -> None:
            assert dict([await receive.receive() for _ in alone]) == alone
            await scene.baseline.settle()

        assert await sweep(one_among_them, check) > 5


async def answers_alone() -> dict[str, str]:
    async with open_scene() as scene:
        return {
            text: (await ask(scene.runtime, asking(text, max_tokens=12))).text
            for text in ("first neighbour", "second neighbour")
        }


async def test_the_drain(autojump_clock: MockClock) -> None:
    """Whoever waits for the drain may be cancelled; the runtime can be opened again."""
    async with open_scene() as scene:
        runtime: Runtime = scene.runtime

        async def drain() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, runtime, asking("in flight", max_tokens=3))
                await trio.sleep(0.01)
                runtime.close_to_new()
                await runtime.wait_idle()

        async def check() -> None:
            runtime.open_to_new()
            await scene.baseline.settle()

        assert await sweep(drain, check) > 2


async def test_a_load_by_hand(autojump_clock: MockClock) -> None:
    model = ScriptedModel(load_seconds=0.5)
    async with open_scripted(ScriptedLoader(model)) as runtime:
        await trio.testing.wait_all_tasks_blocked()

        async def load() -> None:
            await runtime.load(model.id)

        async def check() -> None:
            await trio.testing.wait_all_tasks_blocked()
            assert runtime.statistics().leases == 0

        await sweep(load, check)
        assert len((await ask(runtime, asking("after", max_tokens=1))).text) == 1
        assert len(model.engines) == 1
