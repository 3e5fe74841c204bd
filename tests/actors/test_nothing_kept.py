"""After all kinds of endings nothing of a request is in memory, counted by a gauge or not."""

from __future__ import annotations

from collections import Counter

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.runtime.ports import RowToken, StepResult
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Script, ScriptedModel, objects
from headrace.runtime.testing.runtime import ask, asking
from headrace.runtime.testing.scene import Scene, open_scene

SCRIPTS = {"fails": Script(fail_at=2), "raises": Script(raise_at=0)}


ROUNDS = 5


def grown_since(before: Counter[str]) -> dict[str, int]:
    """Classes of which each round left an object. A loop may still hold its last message."""
    return {name: count for name, count in (objects() - before).items() if count >= ROUNDS}


async def all_kinds_of_endings(scene: Scene) -> None:
    runtime = scene.runtime
    await ask(runtime, asking("finishes", max_tokens=3))
    await ask(runtime, asking("is stopped", stop=("C",)))
    await ask(runtime, asking("fails"))
    await ask(runtime, asking("raises"))
    await ask(runtime, asking("unknown model", model="nobody"))
    await ask(runtime, asking("too long" * 1000))
    async with runtime.request(asking("is not read", max_tokens=3)):
        await trio.sleep(1)
    for seconds in (0.0, 0.001, 0.02, 0.055, 0.5):
        await leave_in_the_midst_of_others(scene, seconds)


async def leave_in_the_midst_of_others(scene: Scene, seconds: float) -> None:
    """Two run, one waits, and one is refused; all go after `seconds`."""
    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(ask, scene.runtime, asking(f"{number}"))


async def test_requests_leave_no_object_behind(autojump_clock: MockClock) -> None:
    settings = Settings(max_rows=2, queue_limit=1, prefill_chunk_tokens=16)
    async with open_scene(ScriptedModel(scripts=SCRIPTS), settings) as scene:
        await all_kinds_of_endings(scene)  # so that what is made once has been made
        await wait_all_tasks_blocked()
        before = objects()

        for _ in range(ROUNDS):
            await all_kinds_of_endings(scene)
        await wait_all_tasks_blocked()

        assert grown_since(before) == {}


async def test_a_life_of_a_model_leaves_no_object_behind(autojump_clock: MockClock) -> None:
    garbage = StepResult(tokens=(RowToken(999, 65),))
    async with open_scene() as scene:

        async def dies() -> None:
            scene.model.at_step(1, lambda: garbage)
            await ask(scene.runtime, asking("dies"))
            await trio.sleep(100)

        await dies()
        before = objects()
        for _ in range(ROUNDS):
            await dies()
        assert grown_since(before) == {}
