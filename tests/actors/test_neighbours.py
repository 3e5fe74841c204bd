"""A row does not feel its neighbours: what it says is what it says alone."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from headrace.runtime.settings import Settings
from headrace.runtime.testing import Choices, Script, ScriptedModel, explore
from headrace.runtime.testing.runtime import Answer, ask, asking
from headrace.runtime.testing.scene import open_scene

PROMPTS = ("short", "a prompt of middling length", "x" * 100)


async def alone() -> dict[str, str]:
    async with open_scene() as scene:
        return {
            prompt: (await ask(scene.runtime, asking(prompt, max_tokens=15))).text
            for prompt in PROMPTS
        }


@pytest.mark.parametrize("mixes", [False, True], ids=["in turns", "mixed"])
@pytest.mark.parametrize("chunk_tokens", [8, 64, 512])
async def test_together_each_says_what_it_says_alone(
    autojump_clock: MockClock, chunk_tokens: int, mixes: bool
) -> None:
    expected = await alone()
    settings = Settings(prefill_chunk_tokens=chunk_tokens)
    async with open_scene(ScriptedModel(mixes=mixes), settings=settings) as scene:
        answers: dict[str, Answer] = {}

        async def one(prompt: str) -> None:
            answers[prompt] = await ask(scene.runtime, asking(prompt, max_tokens=15))

        async with trio.open_nursery() as nursery:
            for prompt in PROMPTS:
                nursery.start_soon(one, prompt)
        assert {prompt: answer.text for prompt, answer in answers.items()} == expected


@pytest.mark.explore
def test_among_rows_that_join_leave_and_fail(seeds: range) -> None:
    expected = trio.run(alone, clock=MockClock(autojump_threshold=0))

    async def scenario(choices: Choices) -> list[str]:
        scripts = {"fails": Script(fail_at=choices.between(0, 6))}
        mixes = choices.pick((False, True))
        async with open_scene(ScriptedModel(scripts=scripts, mixes=mixes)) as scene:

            async def stays(prompt: str) -> None:
                await trio.sleep(choices.seconds(0.1))
                answer = await ask(scene.runtime, asking(prompt, max_tokens=15))
                assert answer.text == expected[prompt]

            async def disturbs(number: int) -> None:
                await trio.sleep(choices.seconds(0.1))
                kind = choices.pick(("leaves", "fails", "ends"))
                with trio.move_on_after(choices.seconds(0.1) if kind == "leaves" else 10):
                    await ask(scene.runtime, asking(f"{kind} {number}", max_tokens=4))

            async with trio.open_nursery() as nursery:
                for prompt in PROMPTS:
                    nursery.start_soon(stays, prompt)
                for number in range(5):
                    nursery.start_soon(disturbs, number)
            await scene.baseline.settle()
            return scene.trace()

    explore(scenario, seeds)


async def test_one_whose_step_raises_takes_only_those_of_the_same_step_along(
    autojump_clock: MockClock,
) -> None:
    expected = await alone()
    async with open_scene(ScriptedModel(scripts={"faulty": Script(raise_at=0)})) as scene:
        answers: list[Answer] = []

        async def stays() -> None:
            answers.append(await ask(scene.runtime, asking("short", max_tokens=15)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stays)
            await trio.sleep(0.05)
            for number in range(3):
                nursery.start_soon(ask, scene.runtime, asking(f"faulty {number}"))
                await trio.sleep(0.02)
        assert [answer.text for answer in answers] == [expected["short"]]
        await scene.baseline.settle()
