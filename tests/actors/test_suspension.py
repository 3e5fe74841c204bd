"""Memory that is short: who waits, who gives way, who is refused, and that nobody notices more.

A scripted token takes one byte, and the device refuses what passes its limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from headrace.actors.runtime import Runtime
from headrace.runtime.contracts import Failed, Finished
from headrace.runtime.errors import Code
from headrace.runtime.settings import Settings
from headrace.runtime.testing import Choices, ScriptedModel, explore
from headrace.runtime.testing.loader import ScriptedLoader
from headrace.runtime.testing.runtime import Answer, ask, asking, open_scripted
from headrace.runtime.testing.scene import Scene, open_scene
from headrace.runtime.testing.sweep import cancelled_at

WEIGHTS = 1000
OVERHEAD = len("user: \nassistant: ")


@asynccontextmanager
async def short_of_memory(
    rows_bytes: int, settings: Settings | None = None, *, window: int | None = None
) -> AsyncIterator[Scene]:
    """So much is left beside the weights, and a row may take all of it."""
    window = window or (rows_bytes if rows_bytes < 512 else 4096)
    scripted = ScriptedModel(weights_bytes=WEIGHTS, kv_bytes_per_token=1, context_window=window)
    async with open_scene(scripted, settings, memory_bytes=WEIGHTS + rows_bytes) as scene:
        scene.device.limit_bytes = WEIGHTS + rows_bytes
        yield scene


async def all_at_once(runtime: Runtime, *names: str, max_tokens: int) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}

    async def client(name: str) -> None:
        answers[name] = await ask(runtime, asking(name, max_tokens=max_tokens))

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(client, name)
            await wait_all_tasks_blocked()
    return answers


async def alone(name: str, max_tokens: int) -> str:
    async with open_scene(ScriptedModel(weights_bytes=WEIGHTS)) as scene:
        return (await ask(scene.runtime, asking(name, max_tokens=max_tokens))).text


async def test_rows_that_outgrow_memory_all_say_what_they_would_have_said(
    autojump_clock: MockClock,
) -> None:
    async with short_of_memory(300) as scene:
        answers = await all_at_once(scene.runtime, "abc", "def", "ghi", max_tokens=150)
        suspended = scene.runtime.trace.events("row.suspended")
        assert suspended
        # Who came first never gives way.
        assert {event.ticket for event in suspended} <= {"t2", "t3"}
        assert scene.device.peak_bytes <= WEIGHTS + 300
        await scene.baseline.settle()
    for name, answer in answers.items():
        assert answer.code is None
        assert answer.text == await alone(name, 150)
        assert answer.accepted.warnings == ()


async def test_a_suspended_row_counts_its_tokens_once(autojump_clock: MockClock) -> None:
    async with short_of_memory(200) as scene:
        answers = await all_at_once(scene.runtime, "abc", "def", max_tokens=120)
        assert scene.runtime.trace.events("row.suspended")
        for answer in answers.values():
            assert isinstance(answer.end, Finished)
            assert answer.end.usage.completion_tokens == 120
            assert answer.end.usage.prompt_tokens == OVERHEAD + 3
            assert answer.end.reason == "length"
        batch = scene.runtime.statistics().models[0].batch
        assert (batch.submitted_rows, batch.finished_rows) == (2, 2)


async def test_a_newcomer_without_memory_waits_in_the_queue(autojump_clock: MockClock) -> None:
    async with short_of_memory(200) as scene, trio.open_nursery() as nursery:
        nursery.start_soon(ask, scene.runtime, asking("x" * 100, max_tokens=50))
        await trio.sleep(0.2)
        nursery.start_soon(ask, scene.runtime, asking("y" * 100, max_tokens=5))
        await trio.sleep(0.1)
        state = scene.runtime.statistics()
        assert (state.rows_running, state.queue_depth) == (1, 1)
        await trio.sleep(2)
        assert scene.runtime.statistics().requests_in_flight == 0
        assert not scene.runtime.trace.events("row.suspended")


async def test_whoever_waits_for_memory_too_long_is_told(autojump_clock: MockClock) -> None:
    async with (
        short_of_memory(200, Settings(queue_timeout_s=1)) as scene,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ask, scene.runtime, asking("x" * 20, max_tokens=150))
        await trio.sleep(0.5)
        answer = await ask(scene.runtime, asking("y" * 130, max_tokens=5))
        assert answer.code is Code.QUEUE_TIMEOUT


class TestTooLarge:
    async def test_a_prompt_that_can_never_fit_is_refused(self, autojump_clock: MockClock) -> None:
        async with short_of_memory(600) as scene:
            answer = await ask(scene.runtime, asking("x" * 600))
            assert answer.code is Code.CONTEXT_OVER_BUDGET
            assert len(answer.events) == 1
            assert isinstance(answer.end, Failed)
            assert "maximum context length is 600 tokens" in answer.end.error.message
            details = answer.end.error.details or {}
            assert details["limited_by"] == "memory"
            assert details["available_bytes"] == 600
            assert details["margin_bytes"] < 0
            assert scene.engine.calls == []

    async def test_a_cap_beyond_memory_is_clamped_and_said(self, autojump_clock: MockClock) -> None:
        async with short_of_memory(600) as scene:
            answer = await ask(scene.runtime, asking("x" * 100, max_tokens=1000))
            assert answer.accepted.max_tokens == 600 - 100 - OVERHEAD
            assert [w.code for w in answer.accepted.warnings] == ["max_tokens_clamped"]
            assert len(answer.text) == answer.accepted.max_tokens
            assert scene.device.peak_bytes <= WEIGHTS + 600

    async def test_a_window_that_is_shorter_is_named_as_the_limit(
        self, autojump_clock: MockClock
    ) -> None:
        async with short_of_memory(5000, window=100) as scene:
            answer = await ask(scene.runtime, asking("x" * 600))
            assert answer.code is Code.CONTEXT_LENGTH_EXCEEDED

    async def test_the_rows_of_one_prompt_count_together(self, autojump_clock: MockClock) -> None:
        async with short_of_memory(600) as scene:
            model = scene.runtime.statistics().models[0]
            assert model.safe_context == 600


@pytest.mark.parametrize("leaver", ["ab", "cd"])
async def test_a_cancel_before_during_and_after_leaves_nothing_behind(
    leaver: str, autojump_clock: MockClock
) -> None:
    """The two rows outgrow memory after some 70 tokens; the leaver is the older or the younger."""
    other = "cd" if leaver == "ab" else "ab"
    async with short_of_memory(180) as scene:

        async def scenario() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, scene.runtime, asking(other, max_tokens=80))
                await ask(scene.runtime, asking(leaver, max_tokens=80))

        step = 1
        while await cancelled_at(step, scenario):
            await scene.baseline.settle()
            step += 5
        assert step > 60
        assert scene.runtime.trace.events("row.suspended")
        assert scene.device.peak_bytes <= WEIGHTS + 180


async def a_crowded_house(choices: Choices) -> list[str]:
    """Twelve clients of many lengths in memory for a few; every third one leaves."""
    rows_bytes = choices.pick((120, 180, 260))
    async with short_of_memory(rows_bytes, Settings(max_rows=6)) as scene:
        whole: dict[int, Answer] = {}

        async def client(number: int) -> None:
            await trio.sleep(choices.seconds(0.5))
            name = f"{number}:" + "x" * choices.between(0, 20)
            request = asking(name, max_tokens=choices.between(1, 60))
            if number % 3 == 0:
                with trio.move_on_after(choices.seconds(1.0)):
                    await ask(scene.runtime, request)
            else:
                whole[number] = await ask(scene.runtime, request)

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(client, number)
        await scene.baseline.settle()
        assert scene.device.peak_bytes <= WEIGHTS + rows_bytes
        for answer in whole.values():
            assert answer.code is None
            assert len(answer.text) == answer.accepted.max_tokens
        report = scene.runtime.statistics().ledger
        assert (report.reserved_bytes, report.transient_bytes, report.held_back) == (0, 0, 0)
        return scene.trace()


def test_a_crowd_in_little_memory(seeds: range) -> None:
    explored = explore(a_crowded_house, seeds[:8], twice=True)
    assert explored.schedules == len(seeds[:8])


class TestTwoModels:
    @staticmethod
    @asynccontextmanager
    async def house(rows_bytes: int) -> AsyncIterator[tuple[Runtime, ScriptedLoader]]:
        """Two models fit, and beside both there is so much for rows."""
        models = [
            ScriptedModel(id=name, weights_bytes=WEIGHTS, kv_bytes_per_token=1, context_window=100)
            for name in "ab"
        ]
        loader = ScriptedLoader(*models)
        limit = 2 * WEIGHTS + rows_bytes
        async with open_scripted(loader, Settings(), memory_bytes=limit) as runtime:
            await runtime.load("a")
            yield runtime, loader

    async def test_a_load_waits_for_rows_to_end_and_newcomers_for_the_load(
        self, autojump_clock: MockClock
    ) -> None:
        async with self.house(100) as (runtime, loader), trio.open_nursery() as nursery:
            names = [f"{n:02}" for n in range(16)]
            for name in names:
                nursery.start_soon(ask, runtime, asking(name, model="a", max_tokens=80))
            await trio.sleep(0.5)
            assert runtime.statistics().rows_running > 1
            answer = await ask(runtime, asking("other", model="b", max_tokens=5))
            assert answer.code is None
            assert loader.device.peak_bytes <= 2 * WEIGHTS + 100
        assert runtime.statistics().ledger.reserved_bytes == 0

    async def test_both_go_on_when_together_they_outgrow_memory(
        self, autojump_clock: MockClock
    ) -> None:
        async with self.house(120) as (runtime, loader):
            await runtime.load("b")
            texts: dict[str, Answer] = {}

            async def client(model: str, name: str) -> None:
                texts[model + name] = await ask(runtime, asking(name, model=model, max_tokens=75))

            async with trio.open_nursery() as nursery:
                for number in range(4):
                    for model in "ab":
                        nursery.start_soon(client, model, f"n{number}")
            assert all(len(answer.text) == 75 for answer in texts.values())
            assert loader.device.peak_bytes <= 2 * WEIGHTS + 120
            for number in range(4):
                assert texts[f"an{number}"].text == texts[f"bn{number}"].text

    async def test_a_model_that_can_never_fit_is_refused_before_its_load(
        self, autojump_clock: MockClock
    ) -> None:
        large = ScriptedModel(id="large", weights_bytes=5 * WEIGHTS)
        loader = ScriptedLoader(ScriptedModel(id="a", weights_bytes=WEIGHTS), large)
        async with open_scripted(loader, memory_bytes=3 * WEIGHTS, budget_bytes=9000) as runtime:
            answer = await ask(runtime, asking("hello", model="large"))
            assert answer.code is Code.LOAD_FAILED
            assert loader.loads == ["a"]


async def two_crowded_models(choices: Choices) -> None:
    """Ten clients of two models come while the second is not loaded yet; some leave."""
    rows_bytes = choices.pick((100, 130, 200, 300))
    async with TestTwoModels.house(rows_bytes) as (runtime, loader):
        whole: dict[int, Answer] = {}

        async def client(number: int) -> None:
            await trio.sleep(choices.seconds(0.6))
            name = f"{number}" + "x" * choices.between(0, 30)
            model, most = choices.pick("ab"), choices.between(1, 60)
            request = asking(name, model=model, max_tokens=most)
            if number % 4 == 0:
                with trio.move_on_after(choices.seconds(1.0)):
                    await ask(runtime, request)
            else:
                whole[number] = await ask(runtime, request)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(client, number)
        assert loader.device.peak_bytes <= 2 * WEIGHTS + rows_bytes
        assert all(answer.code is None for answer in whole.values())
        report = runtime.statistics().ledger
        assert (report.reserved_bytes, report.held_back) == (0, 0)


def test_two_models_in_little_memory(seeds: range) -> None:
    explored = explore(two_crowded_models, seeds[:12])
    assert explored.schedules == len(seeds[:12])


async def test_what_a_suspended_row_leaves_for_the_disk_is_done(autojump_clock: MockClock) -> None:
    done: list[str] = []

    def work() -> None:
        done.append("written")

    async with short_of_memory(200) as scene, trio.open_nursery() as nursery:
        for name in ("abc", "def"):
            nursery.start_soon(ask, scene.runtime, asking(name, max_tokens=120))
        await trio.sleep(0.1)
        scene.engine.pending_disk_work.append(work)
        await trio.sleep(1)
        assert scene.runtime.trace.events("row.suspended")
        # Nobody has left, which would have had it done too.
        assert scene.runtime.statistics().requests_in_flight == 2
        assert done == ["written"]
