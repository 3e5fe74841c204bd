"""Test that your agent stops generating when its user leaves.

    pytest examples/cancel_test.py

No model, no waiting, no luck: the model is scripted, time is virtual, and the user leaves at an
exact step of the engine. The agent below stands for your own code.
"""

from __future__ import annotations

import trio
from trio.testing import MockClock

from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Delta
from headrace.runtime.testing import Choices, Script, ScriptedModel, explore, sweep
from headrace.runtime.testing.runtime import asking
from headrace.runtime.testing.scene import open_scene


async def agent(runtime: Runtime, user: trio.MemorySendChannel[str]) -> None:
    """Your code: plan, then act, and show both to the user as they come."""
    for text in ("Plan the trip.", "Book the trip."):
        async with runtime.request(asking(text, max_tokens=10)) as generation:
            async for event in generation:
                if isinstance(event, Delta):
                    await user.send(event.text)


class User:
    """Reads what the agent says, and may leave; then the agent is cancelled."""

    def __init__(self) -> None:
        self.says, self._hears = trio.open_memory_channel[str](0)
        self.heard = ""

    async def listen(self) -> None:
        async for piece in self._hears:
            self.heard += piece


async def conversation(runtime: Runtime, user: User) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(user.listen)
        with user.says:
            await agent(runtime, user.says)


# 1. The user leaves while the first answer is being generated.


async def test_the_agent_stops_when_its_user_leaves(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:
        with trio.CancelScope() as connection:
            # The user leaves in the middle of the fifth decode step.
            scene.model.at_step(5, connection.cancel, kind="decode")
            await conversation(scene.runtime, User())

        row = scene.engine.row_of("Plan")
        # The step in which it happened was the row's last, and nothing is held any more.
        assert scene.engine.removed_after(row) == scene.engine.steps_of(row)[-1]
        assert scene.engine.kv_bytes() == 0
        # The second answer was never begun.
        assert scene.engine.known_rows == (row,)
        await scene.baseline.settle()


# 2. The user leaves at any moment at all: every step of the conversation, one after the other.


async def test_the_agent_stops_wherever_it_is(autojump_clock: MockClock) -> None:
    async with open_scene() as scene:

        async def talk() -> None:
            await conversation(scene.runtime, User())

        await sweep(talk, scene.baseline.settle)


# 3. Many users at once, of whom some leave, under many schedules. A failure names its seed.


def test_those_who_stay_are_served() -> None:
    async def scenario(choices: Choices) -> list[str]:
        scripts = {"Plan": Script("By train. "), "Book": Script("Done.")}
        async with open_scene(ScriptedModel(scripts=scripts)) as scene:
            leaving, staying = User(), User()

            async def come(user: User, seconds: float) -> None:
                with trio.move_on_after(seconds):
                    await conversation(scene.runtime, user)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(come, leaving, choices.seconds(0.5))
                nursery.start_soon(come, staying, 3600)
            await scene.baseline.settle()
            assert staying.heard == "By train. Done."
            assert staying.heard.startswith(leaving.heard)
            return scene.trace()

    explore(scenario, range(50), twice=True)
