"""What can happen in a chosen step: a cancel, a hang-up, a death, a newcomer, a jumping clock."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import joining, jumping, killing
from headrace.runtime.testing.memory_site import MemorySite
from headrace.runtime.testing.runtime import Answer, ask, asking
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.site import chat


async def test_a_cancel(virtual_clock: MockClock, scene: Scene) -> None:
    with trio.CancelScope() as scope:
        scene.model.at_step(3, scope.cancel, kind="decode")
        await ask(scene.runtime, asking("hello", max_tokens=100))
    row = scene.engine.row_of("hello")
    assert scene.engine.removed_after(row) == scene.engine.steps_of(row)[-1]
    scene.story().tells("request.admitted t1", "step kind=decode", "row.removed t1")
    scene.story("t1").never("request.ended outcome=ok")


async def test_a_client_that_hangs_up(virtual_clock: MockClock, site: MemorySite) -> None:
    """The whole server is between: hypercorn, the app, the runtime. The row's last step is the one
    in which its client left."""
    scene = site.scene
    async with site.dial() as caller:
        scene.model.at_step(5, caller.hang_up, kind="decode")
        await caller.send(chat("Tell me everything.", stream=True))
        await trio.sleep(10)
    row = scene.engine.row_of("Tell me")
    assert scene.engine.removed_after(row) == scene.engine.steps_of(row)[-1]
    scene.story().tells("request.admitted t1", "row.removed t1 reason=disconnect")


async def test_a_death(virtual_clock: MockClock, scene: Scene) -> None:
    scene.model.at_step(2, killing())
    answer = await ask(scene.runtime, asking("hello"))
    assert answer.code is Code.ENGINE_UNAVAILABLE
    await trio.sleep(2)
    assert scene.runtime.model(scene.model.id).state == "ready"
    scene.story().tells("model.crashed", "worker.died", "model.loading", "model.loaded")


async def test_a_newcomer_in_that_very_step(virtual_clock: MockClock, scene: Scene) -> None:
    answers: list[Answer] = []

    async def come() -> None:
        answers.append(await ask(scene.runtime, asking("second", max_tokens=2)))

    async with trio.open_nursery() as nursery:
        scene.model.at_step(2, joining(nursery, come), kind="decode")
        await ask(scene.runtime, asking("first", max_tokens=20))
    assert [answer.code for answer in answers] == [None]
    first, second = scene.engine.row_of("first"), scene.engine.row_of("second")
    assert set(scene.engine.steps_of(first)) & set(scene.engine.steps_of(second))


async def test_a_clock_that_jumps_is_taken_for_a_step_that_hangs(virtual_clock: MockClock) -> None:
    """As after a machine's sleep: whoever waited is told, nothing is left, and it goes on."""
    async with open_scene(settings=Settings(step_timeout_s=5)) as scene:
        scene.model.at_step(3, jumping(virtual_clock, 3600), kind="decode")
        answer = await ask(scene.runtime, asking("hello", max_tokens=10))
        assert answer.code in (None, Code.ENGINE_UNAVAILABLE)
        assert answer.events
        await trio.sleep(30)
        assert (await ask(scene.runtime, asking("after", max_tokens=1))).code is None
        state = scene.runtime.statistics()
        assert (state.requests_in_flight, state.leases, state.rows_running) == (0, 0, 0)
